//go:build image

package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// maxImage is how large the image may be, in bytes on disk.
const maxImage = 40_000_000

func image(t *testing.T) string {
	t.Helper()
	name := os.Getenv("FEEDSINK_IMAGE")
	if name == "" {
		t.Fatal("FEEDSINK_IMAGE: names the image to test; make test-image sets it")
	}
	return name
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestImageIsSmall(t *testing.T) {
	size, err := strconv.Atoi(strings.TrimSpace(docker(t, "image", "inspect", "--format", "{{.Size}}", image(t))))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %.1f MB", image(t), float64(size)/1e6)
	if size > maxImage {
		t.Errorf("got %d bytes, want at most %d", size, maxImage)
	}
}

// restrictions are docker's words for what the chart allows a pod, and for nothing
// more: docker applies its default seccomp profile by itself, as RuntimeDefault does.
func restrictions(t *testing.T, pod corev1.PodSpec) (args []string) {
	t.Helper()
	c := pod.Containers[0]
	if *c.SecurityContext.ReadOnlyRootFilesystem {
		args = append(args, "--read-only")
	}
	if !*c.SecurityContext.AllowPrivilegeEscalation {
		args = append(args, "--security-opt", "no-new-privileges")
	}
	for _, capability := range c.SecurityContext.Capabilities.Drop {
		args = append(args, "--cap-drop", string(capability))
	}
	args = append(args, "--memory", strconv.FormatInt(c.Resources.Limits.Memory().Value(), 10))
	for _, m := range c.VolumeMounts {
		if m.Name == "spool" { // the one place to write to; an emptyDir is anybody's
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--volume", dir+":"+m.MountPath, "--env", "TMPDIR="+m.MountPath)
		}
	}
	for _, e := range c.Env {
		args = append(args, "--env", e.Name+"="+e.Value)
	}
	return args
}

// All of feedsink in one container, under the chart's security context: broker,
// service and sink, until every table is as it must be.
func TestImageRunsUnderTheChartsSecurityContext(t *testing.T) {
	pod := one[*appsv1.Deployment](t, objects(t, "testdata/values/together.yaml"), "-all").Spec.Template.Spec
	for name, user := range map[string]string{
		"the chart's user":          fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup),
		"a user that nobody knows":  "12345:54321",
		"a user id of the platform": "1000710000:0",
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", "--rm", "--network", "none", "--user", user}, restrictions(t, pod)...)
			out := docker(t, append(args, image(t), "dev", "--events", "3000")...)
			t.Logf("%s", out[max(0, len(out)-300):])
		})
	}
}

// The suite that the sink passes as a process passes too when each sink and each
// command of it is a container under the chart's security context.
func TestImagePassesTheEndToEndSuite(t *testing.T) {
	pod := one[*appsv1.Deployment](t, objects(t, "testdata/values/together.yaml"), "-all").Spec.Template.Spec
	flags := append([]string{"--user", "12345:54321"}, restrictions(t, pod)...)
	suite := exec.CommandContext(t.Context(), "go", "test", "-tags", "kafka,image", "-count=1", "-timeout", "25m", "./test/e2e")
	suite.Dir = "../.."
	suite.Env = append(os.Environ(), "FEEDSINK_IMAGE="+image(t), "FEEDSINK_CONTAINER="+strings.Join(flags, " "))
	out, err := suite.CombinedOutput()
	if err != nil {
		// Which test it was stands at the end too, where a reader begins.
		failed := regexp.MustCompile(`(?m)^\s*--- FAIL: .*\n(\s+\w+\.go:\d+: .*\n)?`).FindAll(out, -1)
		t.Fatalf("%s: %v\n%s\nfailed:\n%s", suite, err, out, bytes.Join(failed, nil))
	}
	t.Logf("%s", out[max(0, len(out)-300):])
}
