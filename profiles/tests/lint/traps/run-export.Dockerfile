FROM ubuntu:24.04
RUN apt-get update && \
    export NCCL_DEBUG=WARN
ENV NCCL_IB_GID_INDEX 3
