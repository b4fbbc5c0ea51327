# Images of the harness, for a CPU and for CUDA:
#   docker build --target cpu -t harness .
#   docker build --target cuda -t harness:cuda .    # run with --gpus all
# Wheels of torch for Linux hold CUDA; --build-arg PIP_EXTRA_INDEX_URL=… names an index of smaller ones.
# hadolint global ignore=DL3008
# Images by digest: a tag that moves changes nothing here.
ARG PYTHON=3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

FROM python:${PYTHON} AS source
WORKDIR /src
COPY . .
RUN python -m pip install --no-cache-dir -c build-constraints.txt build hatchling \
    && python -m build --no-isolation --wheel --outdir /wheels

FROM python:${PYTHON} AS cpu
ARG PIP_EXTRA_INDEX_URL
ARG EXTRAS=torch,train,text,db
RUN --mount=type=bind,from=source,source=/wheels,target=/wheels \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    python -m pip install --no-cache-dir -c /constraints.txt "$(echo /wheels/*.whl)[${EXTRAS}]" \
    && useradd --create-home --uid 10001 harness
USER 10001
WORKDIR /workspace
ENTRYPOINT ["harness"]
CMD ["--help"]

# What compiles for a GPU (sam2, DeepSpeed, kernels of linear attention) wants nvcc.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04@sha256:7d2f6a8c2071d911524f95061a0db363e24d27aa51ec831fcccf9e76eb72bc92 AS cuda
ARG EXTRAS=torch,train,text,sam2,db
ENV PATH=/opt/harness/bin:$PATH
RUN apt-get update \
    && apt-get install -y --no-install-recommends git python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/harness
RUN --mount=type=bind,from=source,source=/wheels,target=/wheels \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    PIP_CONSTRAINT=/constraints.txt PIP_BUILD_CONSTRAINT=/constraints.txt \
    python -m pip install --no-cache-dir "$(echo /wheels/*.whl)[${EXTRAS}]" \
    && useradd --create-home --uid 10001 harness
USER 10001
WORKDIR /workspace
ENTRYPOINT ["harness"]
CMD ["--help"]
