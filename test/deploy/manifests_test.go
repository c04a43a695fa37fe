package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func TestManifestsAreWhatTheChartRenders(t *testing.T) {
	files, err := Manifests(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || string(got) != want {
			t.Errorf("%s: is not what the chart renders (%v); make manifests", path, err)
		}
	}
}

func TestPlainFilesAreStrictlyWhatKubernetesTakes(t *testing.T) {
	var all []metav1.Object
	for _, pattern := range []string{"manifests/*.yaml", "keda/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got %q, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range split(string(text)) {
				if o := decode(t, document); o != nil {
					all = append(all, o)
				}
			}
		}
	}
	if got := len(of[*appsv1.Deployment](all)); got != 2 {
		t.Errorf("got %d Deployments, want one for each lane", got)
	}
	for _, n := range of[*corev1.Namespace](all) {
		if got := n.Labels["pod-security.kubernetes.io/enforce"]; got != "restricted" {
			t.Errorf("namespace %s: enforces %q, want restricted", n.Name, got)
		}
	}
}

func TestKustomizationNamesFilesThatAreThere(t *testing.T) {
	dir := filepath.Join(root, "deploy/manifests")
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		APIVersion, Kind, Namespace string
		Resources                   []string
	}
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(k.Resources, "feedsink.yaml") {
		t.Errorf("resources: got %q, want feedsink.yaml among them", k.Resources)
	}
	for _, r := range k.Resources {
		if _, err := os.Stat(filepath.Join(dir, r)); err != nil {
			t.Error(err)
		}
	}
}
