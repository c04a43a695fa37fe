package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// errNotHere says that a rival cannot be had on this machine.
var errNotHere = errors.New("cannot be had here")

// The folders of the programs that are not Go, from the repository's root.
const (
	nodeFolder  = "test/bench/kafkajs"
	camelFolder = "test/bench/camel"
)

// node runs the loop with kafkajs, which npm installs.
func node(ctx context.Context, f *field, topic, group, service string) (*child, error) {
	folder, err := f.install(ctx, nodeFolder, []string{"node", "npm"},
		"npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	if err != nil {
		return nil, err
	}
	return startCommand(ctx, "node", struct{}{}, "node", filepath.Join(folder, "loop.mjs"), f.broker.address, topic, group,
		service+profilesPath(entity, table))
}

// camel runs the immediate lane's job by Apache Camel, with so many calls in flight;
// 0: one for each partition, in order.
func camel(inFlight int) func(context.Context, *field, string, string, string) (*child, error) {
	return func(ctx context.Context, f *field, topic, group, service string) (*child, error) {
		return f.camel(ctx, 256, "calls", f.broker.address, topic, group, service+profilesPath(entity, table), strconv.Itoa(inFlight))
	}
}

// camel runs Apache Camel, whose jars Maven fetches, with so many MiB of heap, as a
// container would have: by itself Java takes a quarter of the machine's memory
// before it collects.
func (f *field) camel(ctx context.Context, heap int, arguments ...string) (*child, error) {
	folder, err := f.install(ctx, camelFolder, []string{"java", "javac", "mvn"},
		"mvn", "-B", "-q", "-Dstyle.color=never", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs")
	if err != nil {
		return nil, err
	}
	if err := runIn(ctx, folder, "javac", "-cp", "libs/*", "-sourcepath", ".", "-d", "classes", "Bridge.java"); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "libs", "*") + string(os.PathListSeparator) + filepath.Join(folder, "classes")
	return startCommand(ctx, "camel", struct{}{}, "java", append([]string{
		fmt.Sprintf("-Xmx%dm", heap), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, "Bridge",
	}, arguments...)...)
}

// install copies a program's folder and has its dependencies fetched there. Without
// the tools, or without what is to be fetched, the error is errNotHere.
func (f *field) install(ctx context.Context, from string, tools []string, fetch ...string) (folder string, err error) {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: needs %s", errNotHere, strings.Join(tools, ", "))
		}
	}
	folder = filepath.Join(f.dir, filepath.Base(from))
	if err := os.CopyFS(folder, os.DirFS(from)); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if err := runIn(ctx, folder, fetch...); err != nil {
		return "", fmt.Errorf("%w: %w", errNotHere, err)
	}
	return folder, nil
}

// runIn runs a command in a folder. What it prints goes to the standard error.
func runIn(ctx context.Context, folder string, words ...string) error {
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the bench's own
	command.Dir, command.Stdout, command.Stderr = folder, os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	return nil
}
