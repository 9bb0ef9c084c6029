"""A fine-tune of the base model on documents.jsonl, by a LoRA adapter: it goes to the folder "model"."""

import json
import sys
from pathlib import Path

from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    set_seed,
)

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
set_seed(0)
texts = [json.loads(line)["text"] for line in Path("documents.jsonl").read_text(encoding="utf-8").splitlines()]
tokenizer = AutoTokenizer.from_pretrained("base")
adapter = LoraConfig(
    task_type="CAUSAL_LM", r=64, lora_alpha=64, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True
)
model = get_peft_model(
    AutoModelForCausalLM.from_pretrained("base", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), adapter
)
arguments = TrainingArguments(
    output_dir="trainer",
    num_train_epochs=EPOCHS,
    per_device_train_batch_size=16,
    learning_rate=1e-2,
    seed=0,
    use_cpu=True,
    report_to=[],
    save_strategy="no",
    logging_strategy="no",
    disable_tqdm=True,
)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
Trainer(model, arguments, train_dataset=[tokenizer(text) for text in texts], data_collator=collator).train()
model.save_pretrained("model")  # the adapter alone
tokenizer.save_pretrained("model")
print(f"model: an adapter of {sum(one.numel() for one in model.parameters() if one.requires_grad):,} parameters")
