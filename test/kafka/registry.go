package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// DefaultRegistryImage is the schema registry that runs when nothing else is
// named. It keeps what it is told in memory.
const DefaultRegistryImage = "apicurio/apicurio-registry-mem:2.6.13.Final"

// RegistryImageVariable names the environment variable that replaces
// DefaultRegistryImage.
const RegistryImageVariable = "FEEDSINK_REGISTRY_IMAGE"

const (
	registryPort = "8080/tcp"
	registryPath = "/apis/ccompat/v7" // where it speaks as Confluent's does
)

// Registry is one running schema registry.
type Registry struct {
	container *testcontainers.DockerContainer
	url       string
}

// StartRegistry runs a schema registry and returns once it answers. Whoever gets
// a Registry closes it.
func StartRegistry(ctx context.Context) (*Registry, error) {
	image := os.Getenv(RegistryImageVariable)
	if image == "" {
		image = DefaultRegistryImage
	}
	r := &Registry{}
	var err error
	r.container, err = testcontainers.Run(
		ctx, image,
		testcontainers.WithExposedPorts(registryPort),
		testcontainers.WithWaitStrategyAndDeadline(readyTimeout, wait.ForHTTP(registryPath+"/subjects").WithPort(registryPort)),
	)
	if err != nil {
		err = fmt.Errorf("start a schema registry from image %s: %w (where no registry of images can be reached, "+
			"test/kafka/registry/build.sh builds an image to name in $%s)", image, err, RegistryImageVariable)
		return nil, errors.Join(err, r.Close(context.WithoutCancel(ctx)))
	}
	host, err := r.container.Host(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find the schema registry: %w", err), r.Close(context.WithoutCancel(ctx)))
	}
	port, err := r.container.MappedPort(ctx, registryPort)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find the schema registry: %w", err), r.Close(context.WithoutCancel(ctx)))
	}
	r.url = "http://" + net.JoinHostPort(host, port.Port()) + registryPath
	return r, nil
}

// URL is the registry's address as Confluent's clients want it.
func (r *Registry) URL() string { return r.url }

// Close removes the registry with what it was told.
func (r *Registry) Close(ctx context.Context) error {
	if err := testcontainers.TerminateContainer(r.container, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0)); err != nil {
		return fmt.Errorf("remove the schema registry: %w", err)
	}
	return nil
}
