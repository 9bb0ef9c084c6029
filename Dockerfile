# docker build --tag miaudit .
# docker run --rm --network none --user "$(id -u):$(id -g)" --volume "$PWD:/work" miaudit run audit.yaml
# With networks: docker build --build-arg EXTRAS=torch,dp --tag miaudit:torch .
FROM python:3.11-slim AS build
ARG EXTRAS=""
COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY src /source/src
RUN python -m venv /opt/miaudit \
    && /opt/miaudit/bin/python -m pip install --no-cache-dir --constraint /source/constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu "/source${EXTRAS:+[$EXTRAS]}"

FROM python:3.11-slim
COPY --from=build /opt/miaudit /opt/miaudit
RUN useradd --create-home auditor
USER auditor
ENV PATH="/opt/miaudit/bin:$PATH" HOME=/tmp
WORKDIR /work
ENTRYPOINT ["miaudit"]
CMD ["--help"]
