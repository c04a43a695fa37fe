package kafka

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// Exec runs one of Kafka's own tools (such as "kafka-topics.sh") inside the
// container and returns what it wrote to standard output. The tool reads stdin,
// which must come to an end; nil is an empty input. An exit code other than
// zero is an error that carries the tool's own words.
//
//	b.Exec(ctx, nil, "kafka-topics.sh", "--bootstrap-server", b.Addr(), "--list")
func (b *Broker) Exec(ctx context.Context, stdin io.Reader, tool string, args ...string) (string, error) {
	stdout, err := b.exec(ctx, stdin, append([]string{"/opt/kafka/bin/" + tool}, args...))
	if err != nil {
		return stdout, fmt.Errorf("run %s in the broker's container: %w", tool, err)
	}
	return stdout, nil
}

func (b *Broker) exec(ctx context.Context, stdin io.Reader, command []string) (string, error) {
	created, err := b.docker.ExecCreate(ctx, b.container.GetContainerID(), client.ExecCreateOptions{
		Cmd: command, AttachStdin: stdin != nil, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return "", err
	}
	stream, err := b.docker.ExecAttach(ctx, created.ID, client.ExecAttachOptions{})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	// The attached connection knows no context: closing it ends the reads and writes below.
	defer context.AfterFunc(ctx, stream.Close)()

	fed := make(chan error, 1)
	go func() { fed <- feed(&stream.HijackedResponse, stdin) }()
	var stdout, stderr bytes.Buffer
	_, err = stdcopy.StdCopy(&stdout, &stderr, stream.Reader)
	// A tool may end without reading all of its input, and its exit code tells
	// more than the broken pipe that follows.
	feedErr := <-fed
	if ctx.Err() != nil {
		return stdout.String(), ctx.Err()
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("read its output: %w", err)
	}
	state, err := b.docker.ExecInspect(ctx, created.ID, client.ExecInspectOptions{})
	if err != nil {
		return stdout.String(), fmt.Errorf("learn its exit code: %w", err)
	}
	if state.ExitCode != 0 {
		return stdout.String(), fmt.Errorf("exit code %d: %s",
			state.ExitCode, strings.TrimSpace(stdout.String()+"\n"+stderr.String()))
	}
	if feedErr != nil {
		return stdout.String(), fmt.Errorf("write its input: %w", feedErr)
	}
	return stdout.String(), nil
}

// feed sends the whole of stdin and then its end.
func feed(stream *client.HijackedResponse, stdin io.Reader) error {
	if stdin == nil {
		return nil
	}
	if _, err := io.Copy(stream.Conn, stdin); err != nil {
		return err
	}
	return stream.CloseWrite()
}
