//go:build !unix

package main

import "errors"

func usage() (answer, error) {
	return answer{}, errors.New("this system does not say what a process has used")
}
