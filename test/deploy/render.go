package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Release is a chart with a name and values, as `helm template` takes them.
type Release struct {
	Name      string
	Namespace string
	Values    map[string]any // over the chart's own
}

// ReadValues reads a values file.
func ReadValues(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return values, nil
}

// Files renders the chart in a folder: text by template, without partials.
// Values that the chart's schema does not allow are an error, and so is what the
// chart itself refuses.
func (r Release) Files(chartDir string) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, fmt.Errorf("load chart: %w", err)
	}
	values, err := util.ToRenderValues(chart, r.Values, common.ReleaseOptions{
		Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true,
	}, common.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name, text := range rendered {
		name = strings.TrimPrefix(name, chart.Name()+"/templates/")
		if !strings.HasPrefix(filepath.Base(name), "_") {
			files[name] = text
		}
	}
	return files, nil
}

// Documents are the Kubernetes objects of a release, each as YAML, in the order of
// the templates' names; Helm's notes and test pods are left out.
func (r Release) Documents(chartDir string) ([]string, error) {
	files, err := r.Files(chartDir)
	if err != nil {
		return nil, err
	}
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) == ".yaml" && !strings.HasPrefix(name, "tests/") {
			documents = append(documents, split(files[name])...)
		}
	}
	return documents, nil
}

// split takes a file apart into its documents. Templates whose conditions do not
// hold leave nothing, or a comment.
func split(text string) (documents []string) {
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		document = strings.TrimSpace(document)
		var object map[string]any
		if yaml.Unmarshal([]byte(document), &object) == nil && object == nil {
			continue
		}
		documents = append(documents, document+"\n")
	}
	return documents
}
