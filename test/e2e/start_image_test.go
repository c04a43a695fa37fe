//go:build image

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// With the tag image every sink and every command of the suite is a container of
// its own. FEEDSINK_IMAGE names the image, FEEDSINK_CONTAINER has the flags of
// docker run that restrict it. A container sees the network, the directories of
// the tests and, to read, this one.

// program writes a script that runs its arguments as feedsink's in a container
// named by the script's process.
func program(dir string) (path string, err error) {
	image := os.Getenv("FEEDSINK_IMAGE")
	if image == "" {
		return "", errors.New("FEEDSINK_IMAGE: names the image whose containers the suite runs")
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "feedsink")
	script := fmt.Sprintf(`#!/bin/sh
for name in BROKERS PREFIX SERVICE API_KEY DIR GOMEMLIMIT FEEDSINK_SECRETS; do
  eval "set=\${$name+set}"
  [ -z "$set" ] || own="$own --env $name"
done
exec %[1]s run --rm --name feedsink-e2e-$$ --network host %[2]s \
  --volume %[3]s:%[3]s --volume %[4]s:%[4]s:ro --workdir %[4]s \
  --env HOME=/tmp --env ZONEINFO=%[5]s $own %[6]s "$@"
`, docker, os.Getenv("FEEDSINK_CONTAINER"), dir, here, zoneDir, image)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return "", err
	}
	// Directories of tests are made in it, and are anybody's to see.
	return path, errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir))
}

// start runs a sink in a container, until it can be told to stop.
func (w *world) start(yaml string) *running {
	w.t.Helper()
	p := w.run(yaml)
	w.logs = p.out
	p.admin(w)
	return &running{containerised{w, p}, func() { p.terminate(w.t) }}
}

type containerised struct {
	w *world
	p *process
}

func (c containerised) AdminAddress() string { return c.p.admin(c.w) }

func (c containerised) Unready() []string {
	answer := strings.TrimSpace(get(c.w.t, c.AdminAddress(), "/readyz"))
	if answer == "ok" {
		return nil
	}
	return strings.Split(answer, "\n")
}

// shared lets the container's user read and write a directory or file.
func shared(t *testing.T, path string) string {
	t.Helper()
	parent, err := os.Stat(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(filepath.Dir(path), parent.Mode()|0o055), os.Chmod(path, 0o777)); err != nil {
		t.Fatal(err)
	}
	return path
}

// signal goes to the program in the container; docker's own client passes on some
// signals only.
func (p *process) signal(s os.Signal) error {
	number := fmt.Sprint(int(s.(syscall.Signal)))
	out, err := exec.Command("docker", "kill", "--signal", number, fmt.Sprint("feedsink-e2e-", p.cmd.Process.Pid)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
