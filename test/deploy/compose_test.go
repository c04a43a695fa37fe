package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	promconfig "github.com/prometheus/prometheus/config"

	"github.com/feedsink/feedsink/connector/config"
)

const composeDir = root + "/deploy/compose"

func TestComposeFileIsValidAndMountsWhatIsThere(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(composeDir, "compose.yaml")}, cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if v.Type != "bind" {
				continue
			}
			if info, err := os.Stat(v.Source); err != nil || info.IsDir() {
				t.Errorf("%s: mounts %s: %v", name, v.Source, err)
			}
		}
		for _, p := range service.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to the network, want it on 127.0.0.1", name, p.Published)
			}
		}
		if ours := name == "feedsink" || name == "service"; ours && (!service.ReadOnly || len(service.CapDrop) != 1 || service.User == "") {
			t.Errorf("%s: is not restricted", name)
		}
	}
	variables := map[string]string{}
	for variable, value := range project.Services["feedsink"].Environment {
		variables[variable] = *value
	}
	text, err := os.ReadFile(filepath.Join(composeDir, "feedsink.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse("feedsink.yaml", text, func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}); err != nil {
		t.Error(err)
	}
}

func TestPrometheusTakesItsConfiguration(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(composeDir, "prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := promconfig.Load(string(text), nil); err != nil {
		t.Error(err)
	}
}
