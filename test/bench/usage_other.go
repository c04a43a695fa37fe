//go:build !unix

package main

import "errors"

func usage() (cpu float64, rss int64, err error) {
	return 0, 0, errors.New("this system does not say what a process has used")
}
