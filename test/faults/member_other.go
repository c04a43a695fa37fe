//go:build !linux

package main

import (
	"errors"
	"fmt"
)

// Only Linux can limit the files of a process that runs; the others are spared
// the work of finding out what else differs.
var errNotHere = fmt.Errorf("this fault needs Linux: %w", errors.ErrUnsupported)

func (m *member) freeze() error { return errNotHere }

func (m *member) thaw() error { return errNotHere }

func (m *member) limitFiles(bool) error { return errNotHere }
