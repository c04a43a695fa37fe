package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// cable is one member's way to the broker. The broker advertises the cable to
// whoever comes through it, so that the member has no other.
type cable struct {
	*passage
	broker  func() string // where it leads; known once the broker runs
	running sync.WaitGroup
}

// newCable opens a cable. Once ctx has ended it connects nobody any more.
func newCable(ctx context.Context, broker func() string) (*cable, error) {
	p, err := newPassage()
	if err != nil {
		return nil, err
	}
	c := &cable{passage: p, broker: broker}
	c.running.Go(func() {
		for {
			conn, err := p.Accept()
			if err != nil {
				return // closed
			}
			c.running.Go(func() { c.carry(ctx, conn) })
		}
	})
	return c, nil
}

// carry connects a connection of the member's to the broker until one end is
// closed or cut.
func (c *cable) carry(ctx context.Context, member net.Conn) {
	defer member.Close()
	broker, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.broker())
	if err != nil {
		return // the broker is away; the member tries again
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(member, broker) // until one of them ends
		_ = member.Close()
	})
	_, _ = io.Copy(broker, member)
	_ = broker.Close()
	back.Wait()
}

// close cuts what is connected.
func (c *cable) close() error {
	err := c.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	c.set(down)
	c.running.Wait()
	return err
}
