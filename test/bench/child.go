package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// child is a process in a role, seen from the bench.
type child struct {
	role    string
	address string // of broker and service

	ask     *json.Encoder
	answers chan answer
	cancel  context.CancelFunc
	ended   chan struct{} // closed with err set
	err     error
}

// patience is how long a child may take to end after it was told to.
const patience = 15 * time.Second

// start runs this binary in a role and waits for its greeting.
func start(ctx context.Context, role string, settings any) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startCommand(ctx, role, settings, self, roleArgument, role)
}

// startCommand starts a program that behaves as a role does.
func startCommand(ctx context.Context, role string, settings any, program string, arguments ...string) (*child, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // the bench's own
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	cmd.WaitDelay = patience
	cmd.Cancel = func() error {
		_ = in.Close()           // it ends by itself; else WaitDelay kills it
		return os.ErrProcessDone // then its end is no failure
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	c := &child{role: role, ask: json.NewEncoder(in), answers: make(chan answer, 1), cancel: cancel, ended: make(chan struct{})}
	go c.listen(cmd, out)
	if err := c.ask.Encode(settings); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", role, err), c.stop())
	}
	greeting, err := c.hear(ctx)
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.address = greeting.Address
	return c, nil
}

// listen passes the answers on until there are no more, then sees the process
// out.
func (c *child) listen(cmd *exec.Cmd, out io.Reader) {
	defer close(c.ended)
	for answers := json.NewDecoder(out); ; {
		var a answer
		if answers.Decode(&a) != nil {
			break
		}
		c.answers <- a
	}
	if err := cmd.Wait(); err != nil {
		c.err = fmt.Errorf("%s: %w", c.role, err)
	}
}

func (c *child) hear(ctx context.Context) (answer, error) {
	select {
	case a := <-c.answers:
		return a, nil
	case <-c.ended:
		return answer{}, errors.Join(c.err, fmt.Errorf("%s: ended too early", c.role))
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// usage asks the child what it has used and done so far.
func (c *child) usage(ctx context.Context) (answer, error) { return c.question(ctx, question{}) }

// set turns the child's knob.
func (c *child) set(ctx context.Context, to int64) error {
	_, err := c.question(ctx, question{Set: &to})
	return err
}

func (c *child) question(ctx context.Context, q question) (answer, error) {
	if err := c.ask.Encode(q); err != nil {
		return answer{}, fmt.Errorf("%s: %w", c.role, err)
	}
	return c.hear(ctx)
}

// stop ends the child and returns how it ended.
func (c *child) stop() error {
	c.cancel()
	<-c.ended
	return c.err
}

// onEnd calls f when the child ends, unless the function returned is called
// before, which waits for f if it is under way.
func (c *child) onEnd(f func(error)) (forget func()) {
	over, heard := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		select {
		case <-c.ended:
			f(errors.Join(c.err, fmt.Errorf("%s: ended too early", c.role)))
		case <-over:
		}
	}()
	return func() {
		close(over)
		<-heard
	}
}
