# The images of Plimsoll: one static program each, nobody as its user, no shell.
#
#   docker build --tag ghcr.io/plimsoll-dev/plimsoll:0.1.0 .
#   docker build --tag ghcr.io/plimsoll-dev/plimsoll-agent:0.1.0 --target agent .

# That of Cargo.toml. On Alpine, what Rust builds is linked against musl, statically.
ARG RUST=1.95.0
# Of the line that web/setup takes.
ARG NODE=22.23.3

# The dashboard is the same files for every platform.
FROM --platform=$BUILDPLATFORM node:${NODE}-alpine AS page
WORKDIR /web
COPY web/package.json web/package-lock.json ./
RUN --mount=type=cache,target=/root/.npm npm ci --no-audit --no-fund
COPY web ./
RUN npm run build

FROM rust:${RUST}-alpine AS sources
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY benches benches
# The demo is built in, with its model.
COPY examples examples
COPY models models

FROM sources AS build
# The program is built without a dashboard where there is none.
COPY --from=page /web/dist web/dist
# Without the features that train networks by their gradients: they take minutes to build. What learns in a cluster does so by evolution.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release --package plimsoll --no-default-features --config profile.release.strip=true && \
    cp target/release/plimsoll /plimsoll

FROM sources AS build-agent
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release --package plimsoll-agent --config profile.release.strip=true && \
    cp target/release/plimsoll-agent /plimsoll-agent

# It asks nobody by TLS, so that it needs nothing but itself.
FROM scratch AS agent
LABEL org.opencontainers.image.title="plimsoll-agent" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build-agent /plimsoll-agent /plimsoll-agent
# By number, so that runAsNonRoot can be checked.
USER 65532:65532
ENTRYPOINT ["/plimsoll-agent"]

# Its certificates are for a Prometheus that is asked by TLS.
FROM gcr.io/distroless/static-debian12:nonroot AS plimsoll
LABEL org.opencontainers.image.title="plimsoll" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /plimsoll /usr/local/bin/plimsoll
COPY models /models
# Where --policy models/energy is found.
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/plimsoll"]
