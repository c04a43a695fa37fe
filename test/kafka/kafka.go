// Package kafka runs a real Apache Kafka for tests: one broker in KRaft mode in
// a container, which can be stopped, killed, frozen and started again with its
// data kept, and whose own command line tools run inside it.
//
// Beside it runs a schema registry with Confluent's interface.
//
// It knows the public images and whatever behaves like them (image/ and
// registry/ build some where no image registry can be reached), and nothing of
// feedsink.
package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// DefaultImage is what runs when nothing else is named: the newest 4.x whose
// broker and tools are both published.
const DefaultImage = "apache/kafka:4.3.1"

// ImageVariable names the environment variable that replaces DefaultImage.
const ImageVariable = "FEEDSINK_KAFKA_IMAGE"

// stopTimeout bounds an orderly shutdown; a broker that takes longer is killed.
const stopTimeout = 30 * time.Second

// Options says what differs from a plain broker. The zero value is a plain broker.
type Options struct {
	// Image is the image to run; empty means $FEEDSINK_KAFKA_IMAGE, and without
	// that DefaultImage.
	Image string
	// Config holds broker properties under Kafka's own names, such as
	// "offset.metadata.max.bytes". They win over the harness's.
	Config map[string]string
	// Fronts are addresses of this machine, host:port, where something of the
	// test's own takes connections for the broker, such as a proxy that can be
	// cut. Clients that come through a front stay with it, because its listener
	// advertises it. Behind tells where a front has to forward to.
	Fronts []string
	// Secured are further listeners, each with a security of its own.
	Secured []Secured
	// Files are put into the container before the broker starts, by their paths.
	Files map[string][]byte
}

// Secured is a listener for clients besides the plain one.
type Secured struct {
	Name     string            // unique: letters
	Protocol string            // SSL, SASL_SSL or SASL_PLAINTEXT
	Front    string            // as those of Options: something of the test's own
	Config   map[string]string // properties of this listener alone, without their prefix listener.name.NAME
}

// Broker is one running broker. Its methods may not be called concurrently,
// except Addr and Exec.
type Broker struct {
	container *testcontainers.DockerContainer
	docker    *client.Client
	addr      string
	behind    map[string]string // address by front
}

// Start runs a broker and returns once it answers. Whoever gets a Broker closes
// it. The Docker daemon has to be on this machine, because the broker advertises
// an address of its loopback interface.
func Start(ctx context.Context, options Options) (*Broker, error) {
	image := options.Image
	if image == "" {
		image = os.Getenv(ImageVariable)
	}
	if image == "" {
		image = DefaultImage
	}
	for tries := 1; ; tries++ {
		b, err := start(ctx, image, options)
		if err == nil || tries == startTries || !portTaken(err) {
			return b, err
		}
	}
}

// startTries is how often other ports are tried: a port that was free may be another
// process's when the container takes it.
const startTries = 5

func portTaken(err error) bool {
	return strings.Contains(err.Error(), "port is already allocated") || strings.Contains(err.Error(), "address already in use")
}

func start(ctx context.Context, image string, options Options) (*Broker, error) {
	fronts := append(plain(options.Fronts), options.Secured...)
	ports, err := freePorts(ctx, 1+len(fronts))
	if err != nil {
		return nil, fmt.Errorf("start Kafka: find a free port: %w", err)
	}
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("start Kafka: reach the Docker daemon: %w", err)
	}
	b := &Broker{docker: docker.Client, addr: loopback(ports[0]), behind: map[string]string{}}
	for i, front := range fronts {
		b.behind[front.Front] = loopback(ports[1+i])
	}
	b.container, err = testcontainers.Run(
		ctx, image,
		testcontainers.WithEnv(environment(listeners(ports, fronts), options.Config)),
		testcontainers.WithFiles(contained(options.Files)...),
		testcontainers.WithExposedPorts(exposed(ports)...),
		// The same port inside and outside, and after a restart: the broker
		// advertises the one address that clients on both sides dial.
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.PortBindings = network.PortMap{}
			for _, port := range ports {
				host.PortBindings[network.MustParsePort(port+"/tcp")] = []network.PortBinding{
					{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: port},
				}
			}
		}),
	)
	if err != nil {
		err = fmt.Errorf("start Kafka from image %s: %w (where no registry can be reached, "+
			"test/kafka/image/build.sh builds an image to name in $%s)", image, err, ImageVariable)
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	if err := b.awaitReady(ctx); err != nil {
		ctx := context.WithoutCancel(ctx)
		err = fmt.Errorf("start Kafka from image %s: %w; its log ends with:\n%s", image, err, b.logTail(ctx))
		return nil, errors.Join(err, b.Close(ctx))
	}
	return b, nil
}

// Put writes a file into the running broker's container.
func (b *Broker) Put(ctx context.Context, path string, content []byte) error {
	if err := b.container.CopyToContainer(ctx, content, path, 0o644); err != nil {
		return fmt.Errorf("put %s into the broker's container: %w", path, err)
	}
	return nil
}

func contained(files map[string][]byte) (all []testcontainers.ContainerFile) {
	for path, content := range files {
		all = append(all, testcontainers.ContainerFile{Reader: bytes.NewReader(content), ContainerFilePath: path, FileMode: 0o644})
	}
	return all
}

// ForTest is Start for a test that cannot go on without a broker. The broker
// ends with the test; if the test has failed, the end of its log is shown.
func ForTest(tb testing.TB, options Options) *Broker {
	tb.Helper()
	log.SetDefault(log.NewNoopLogger()) // a page of container ids for each broker otherwise
	b, err := Start(tb.Context(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx := context.Background()
		if tb.Failed() {
			tb.Logf("the broker's log ends with:\n%s", b.logTail(ctx))
		}
		if err := b.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// Addr is the broker's host:port, for clients on this machine and for tools run
// by Exec alike. It stays the same over restarts.
func (b *Broker) Addr() string { return b.addr }

// Behind is the broker's own address for a front of Options.
func (b *Broker) Behind(front string) string { return b.behind[front] }

// Stop shuts the broker down in order, and keeps its data.
func (b *Broker) Stop(ctx context.Context) error {
	timeout := stopTimeout
	if err := b.container.Stop(ctx, &timeout); err != nil {
		return fmt.Errorf("stop Kafka: %w", err)
	}
	return nil
}

// Kill ends the broker by SIGKILL, as a crash of its machine would, and keeps
// what had reached the disk.
func (b *Broker) Kill(ctx context.Context) error {
	_, err := b.docker.ContainerKill(ctx, b.container.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	if err != nil {
		return fmt.Errorf("kill Kafka: %w", err)
	}
	return nil
}

// Start starts a stopped or killed broker again, on the same data and the same
// address, and returns once it answers.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.container.Start(ctx); err != nil {
		return fmt.Errorf("start Kafka again: %w", err)
	}
	if err := b.awaitReady(ctx); err != nil {
		return fmt.Errorf("start Kafka again: %w", err)
	}
	return nil
}

// Pause freezes the broker: connections stay open and nothing answers.
func (b *Broker) Pause(ctx context.Context) error {
	var err error
	for range 5 { // on a busy machine the runtime gives up after a while: "unable to freeze"
		if _, err = b.docker.ContainerPause(ctx, b.container.GetContainerID(), client.ContainerPauseOptions{}); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("pause Kafka: %w", err)
	}
	return nil
}

// Resume ends a Pause.
func (b *Broker) Resume(ctx context.Context) error {
	_, err := b.docker.ContainerUnpause(ctx, b.container.GetContainerID(), client.ContainerUnpauseOptions{})
	if err != nil {
		return fmt.Errorf("resume Kafka: %w", err)
	}
	return nil
}

// LogSize is how many bytes are in the newest file of a partition's log.
func (b *Broker) LogSize(ctx context.Context, topic string, partition int32) (int64, error) {
	said, err := b.exec(ctx, nil, []string{"bash", "-c", "stat -c %s " + newestFile(topic, partition)})
	if err != nil {
		return 0, fmt.Errorf("size of the log of %s[%d]: %w", topic, partition, err)
	}
	return strconv.ParseInt(strings.TrimSpace(said), 10, 64)
}

// CutLog cuts the newest file of a partition's log to a size that it had. The
// broker, to which nothing is produced meanwhile, has to be killed then: started
// again it has lost the end of its log, as by an unclean leader election.
func (b *Broker) CutLog(ctx context.Context, topic string, partition int32, size int64) error {
	_, err := b.exec(ctx, nil, []string{"bash", "-c", fmt.Sprintf("truncate -s %d %s", size, newestFile(topic, partition))})
	if err != nil {
		return fmt.Errorf("cut the log of %s[%d]: %w", topic, partition, err)
	}
	return nil
}

// newestFile is the file of a partition's log that is written to, for a shell.
func newestFile(topic string, partition int32) string {
	return fmt.Sprintf("$(ls %s/%s-%d/*.log | tail -n 1)", logDir, topic, partition)
}

// Close removes the broker with its data, whatever state it is in.
func (b *Broker) Close(ctx context.Context) error {
	err := testcontainers.TerminateContainer(b.container, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
	if err != nil {
		err = fmt.Errorf("remove Kafka: %w", err)
	}
	return errors.Join(err, b.docker.Close())
}

// logTail is the end of the broker's output, for a failure's message.
func (b *Broker) logTail(ctx context.Context) string {
	logs, err := b.container.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer logs.Close()
	text, err := io.ReadAll(logs)
	if err != nil {
		return err.Error()
	}
	const tail = 4000
	return string(text[max(0, len(text)-tail):])
}
