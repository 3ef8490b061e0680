# The image of sless: manager, gateway and builder.
# Override BASE_IMAGE (it builds) and RUN_IMAGE (it runs) to take them from another registry,
# e.g. docker.io/library/golang:1.26
ARG BASE_IMAGE=golang:1.26
ARG RUN_IMAGE=gcr.io/distroless/static:nonroot
FROM ${BASE_IMAGE} AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /workspace
# The modules come first, so that a change of the code does not fetch them again.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} go build -trimpath -ldflags '-s -w' -o manager ./cmd && \
    CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} go build -trimpath -ldflags '-s -w' -o gateway ./cmd/gateway && \
    CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} go build -trimpath -ldflags '-s -w' -o builder ./cmd/builder

FROM ${RUN_IMAGE}
COPY --from=build /workspace/manager /workspace/gateway /workspace/builder /
USER 65532:65532
ENTRYPOINT ["/manager"]
