package spool

import "io"

// ahead writes on a goroutine of its own, so that lines are made while those before them
// are compressed. It is for one goroutine at a time, and begins with begin.
type ahead struct {
	to   io.Writer
	pipe *io.PipeWriter
	done chan error // of the goroutine; nil: none runs
}

// aheadBytes are what is written at a time, and so what is on its way.
const aheadBytes = 64 << 10

func (a *ahead) begin() {
	from, pipe := io.Pipe()
	done := make(chan error, 1)
	a.pipe, a.done = pipe, done
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{a.to}, from, make([]byte, aheadBytes))
		_ = from.CloseWithError(err) // for who writes
		done <- err
	}()
}

// Write may return an error of bytes that were written before.
func (a *ahead) Write(p []byte) (int, error) { return a.pipe.Write(p) }

// end waits until all is written, and returns the first error.
func (a *ahead) end() error {
	if a.done == nil {
		return nil
	}
	_ = a.pipe.Close() // it has no error
	err := <-a.done
	a.done = nil
	return err
}
