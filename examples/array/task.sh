#!/bin/bash
# One task of a job array: it trains its part of the models into the store that all tasks share.
#SBATCH --job-name=miaudit
#SBATCH --array=0-9
#SBATCH --time=60
#SBATCH --requeue
# A task that was killed runs again, and trains only what is missing. SLURM and Kubernetes number tasks from 0.
set -eu
number=${SLURM_ARRAY_TASK_ID:-${JOB_COMPLETION_INDEX:-}}
tasks=${SLURM_ARRAY_TASK_COUNT:-${TASKS:-}}
: "${number:?set SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX}" "${tasks:?set SLURM_ARRAY_TASK_COUNT or TASKS}"
exec miaudit collect "${CONFIG:-examples/array/audit.yaml}" --part "$((number + 1))/$tasks"
