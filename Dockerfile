# One static binary and the certificates it trusts; no shell, no package, no
# user that could become root. It runs on a read-only root file system under
# any user id: only the spool is written to.
#
#   make image
#
ARG GO_IMAGE=golang:1.26

FROM ${GO_IMAGE} AS build
WORKDIR /src
# The modules on their own first: a layer that stays until go.sum changes.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
# The flags are those of make build, and give the same binary. timetzdata: the day's slots follow imports.timezone, and there is no zone
# file to read in an image without a system. grpcnotrace: gRPC, which tracing brings along, has pages of its own that nothing serves.
# -funcalign: with 32, the linker's choice, a hundredth of the binary is padding. -l: no function of kmsg, kadm and kfake is
# inlined, which takes a twenty-fifth of it off: 1.6 MB, for about 20 ns a record.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata,grpcnotrace \
    -gcflags 'github.com/twmb/franz-go/pkg/kmsg/...=-l' -gcflags 'github.com/twmb/franz-go/pkg/kadm/...=-l' \
    -gcflags 'github.com/twmb/franz-go/pkg/kfake/...=-l' \
    -ldflags "-s -w -funcalign=16 -X main.version=${VERSION} -X main.commit=${COMMIT}" \
    -o /root-fs/feedsink ./cmd/feedsink
RUN mkdir -p /root-fs/etc/ssl/certs /root-fs/etc/feedsink /spool/feedsink \
    && cp /etc/ssl/certs/ca-certificates.crt /root-fs/etc/ssl/certs/ \
    && echo 'feedsink:x:65532:65532:feedsink:/var/lib/feedsink:/sbin/nologin' >/root-fs/etc/passwd \
    && echo 'feedsink:x:65532:' >/root-fs/etc/group \
    && chmod 770 /spool/feedsink

FROM scratch
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="feedsink" \
      org.opencontainers.image.description="Kafka sink connector for a marketing database" \
      org.opencontainers.image.source="https://github.com/feedsink/feedsink" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /root-fs/ /
# Group 0 may write as well: that is the group of a user id made up by the
# platform, as OpenShift does.
COPY --from=build --chown=65532:0 /spool/ /var/lib/
VOLUME /var/lib/feedsink
EXPOSE 8080
# By number: Kubernetes' runAsNonRoot cannot check a name.
USER 65532:65532
ENTRYPOINT ["/feedsink"]
CMD ["run", "-c", "/etc/feedsink/feedsink.yaml"]
