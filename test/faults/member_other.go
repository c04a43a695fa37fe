//go:build !linux

package main

import (
	"errors"
	"fmt"
)

// Linux alone can limit the files of another process while it runs.
var errNotHere = fmt.Errorf("this fault needs Linux: %w", errors.ErrUnsupported)

func (m *member) freeze() error { return errNotHere }

func (m *member) thaw() error { return errNotHere }

func (m *member) limitFiles(bool) error { return errNotHere }
