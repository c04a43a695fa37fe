package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// laneConfigurations are one for each thing that a configuration can say of the lanes
// it uses, by name.
func laneConfigurations() map[string]map[string]any {
	type m = map[string]any
	immediate, batch, auto := m{"lane": "immediate"}, m{"lane": "batch"}, m{"lane": "auto", "within": "2h"}
	gold := m{"when": `segments.tier == "gold"`, "lane": "immediate"}
	skip := m{"when": `op == "delete"`, "lane": "skip"}
	imports := func(op, mode string, column any) m {
		return m{op: m{"etl": "1", "mode": mode, "ignoresEmpty": op == "patch" || op == "merge"}, "columns": []any{"customerNumber", column}}
	}
	upsert := imports("upsert", "CREATE_OR_UPDATE", "emailAddress")
	configurations := map[string]map[string]any{
		"rows with a delete import": {"mappings": []any{m{
			"name": "orders", "topics": []any{"shop"}, "customTable": "orders", "key": "businessKey", "routes": []any{immediate},
			"imports": m{"delete": m{"etl": "1", "mode": "DELETE"}},
		}}},
	}
	for name, c := range map[string]struct {
		routes  []any
		imports m
	}{
		"immediate":             {[]any{immediate}, nil},
		"immediate with upsert": {[]any{immediate}, upsert},
		"immediate with patch":  {[]any{immediate}, imports("patch", "UPDATE_ONLY", "emailAddress")},
		"immediate with merge":  {[]any{immediate}, imports("merge", "CREATE_OR_UPDATE", "emailAddress")},
		"immediate with create": {[]any{immediate}, imports("create", "CREATE_ONLY", "emailAddress")},
		"immediate with delete": {[]any{immediate}, imports("delete", "DELETE", "emailAddress")},
		"batch":                 {[]any{batch}, upsert},
		"auto":                  {[]any{auto}, upsert},
		"immediate and auto":    {[]any{gold, auto}, upsert},
		"skip and batch":        {[]any{skip, batch}, upsert},
		"absent: immediate":     {[]any{batch}, imports("upsert", "CREATE_OR_UPDATE", m{"name": "emailAddress", "absent": "immediate"})},
		"null: immediate":       {[]any{auto}, imports("upsert", "CREATE_OR_UPDATE", m{"name": "emailAddress", "null": "immediate"})},
		"null without a file":   {[]any{immediate}, imports("upsert", "CREATE_OR_UPDATE", m{"name": "emailAddress", "null": "immediate"})},
	} {
		mapping := m{"name": "customers", "topics": []any{"crm"}, "profileTable": "customers", "key": "customerNumber", "routes": c.routes}
		if c.imports != nil {
			mapping["imports"] = c.imports
		}
		configurations[name] = m{"mappings": []any{mapping}}
	}
	return configurations
}

// addExamples adds the mappings of the examples.
func addExamples(t *testing.T, to map[string]map[string]any) {
	t.Helper()
	files, err := filepath.Glob(root + "/deploy/examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: got %d, %v, want at least 5", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any // Helm wants the key null in quotes
		if err := yaml.Unmarshal(bytes.ReplaceAll(text, []byte(" null:"), []byte(` "null":`)), &config); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		own := map[string]any{"mappings": config["mappings"]}
		if registry, ok := config["schemaRegistry"].(map[string]any); ok {
			own["schemaRegistry"] = map[string]any{"url": registry["url"]}
		}
		to[filepath.Base(file)] = own
	}
}

// lanesOf is what feedsink itself says of the lanes that a release's mappings use.
func lanesOf(t *testing.T, r Release) (lanes []string) {
	t.Helper()
	all := objectsOf(t, r)
	compiled, problems := router.Compile(loaded(t, all, pods(all)[0]).Mappings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, lane := range schemas.Lanes {
		if len(compiled.Topics(lane)) > 0 {
			lanes = append(lanes, lane.String())
		}
	}
	return lanes
}

// TestDeploymentsAreThoseOfTheLanesInUse: the chart takes a Deployment for each lane
// that feedsink says the mappings use, and for no other. Pods that run both lanes and
// watch the file are replaced where a lane is used that was not, or no more.
func TestDeploymentsAreThoseOfTheLanesInUse(t *testing.T) {
	type m = map[string]any
	configurations := laneConfigurations()
	addExamples(t, configurations)
	checksums := map[string]string{}
	for name, config := range configurations {
		t.Run(name, func(t *testing.T) {
			release := func(lanes string, immediate, batch bool) Release {
				return Release{Name: "feedsink", Namespace: "feeds", Values: m{
					"config": config, "lanes": lanes, "reload": m{"watch": true}, "networkPolicy": m{"enabled": false},
					"immediate": m{"enabled": immediate}, "batch": m{"enabled": batch},
				}}
			}
			together := release("together", true, true)
			used := lanesOf(t, together)
			for _, enabled := range [][]string{{"immediate", "batch"}, {"immediate"}, {"batch"}} {
				_, err := release("separate", slices.Contains(enabled, "immediate"), slices.Contains(enabled, "batch")).Files(chart)
				want := ""
				for _, lane := range []string{"batch", "immediate"} { // the first that is wrong is named
					switch is := slices.Contains(enabled, lane); {
					case slices.Contains(used, lane) && !is:
						want = lane + ".enabled: the mappings use the " + lane + " lane, "
					case is && !slices.Contains(used, lane):
						want = lane + ".enabled: no mapping uses the " + lane + " lane, "
					}
				}
				if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
					t.Errorf("with pods for %q: got %v, want %q, as feedsink uses %q", enabled, got, want, used)
				}
			}
			got := one[*appsv1.Deployment](t, objectsOf(t, together), "").Spec.Template.Annotations["checksum/config"]
			if want, known := checksums[fmt.Sprint(used)]; known && got != want {
				t.Errorf("checksum: got %q, want %q, as of the others that use %q", got, want, used)
			}
			checksums[fmt.Sprint(used)] = got
		})
	}
	if distinct := slices.Compact(slices.Sorted(maps.Values(checksums))); len(distinct) != 3 {
		t.Errorf("checksums by lanes: got %v, want three: of each lane and of both", checksums)
	}
}
