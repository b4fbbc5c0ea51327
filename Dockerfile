# Images of the harness, for a CPU and for CUDA:
#   docker build --target cpu -t harness .
#   docker build --target cuda -t harness:cuda .    # run with --gpus all
# Wheels of torch for Linux hold CUDA; --build-arg PIP_EXTRA_INDEX_URL=… names an index of smaller ones.
# hadolint global ignore=DL3008
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS source
WORKDIR /src
COPY . .
RUN python -m pip install --no-cache-dir build==1.6.1 && python -m build --wheel --outdir /wheels

FROM python:${PYTHON}-slim AS cpu
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
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS cuda
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
