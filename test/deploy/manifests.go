package deploy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// manifest is one file of plain objects: those of the given kinds, from the chart
// with the given values.
type manifest struct {
	path   string // below the repository's root
	about  string
	values map[string]any
	kinds  []string
}

type object = map[string]any

var manifests = []manifest{
	{
		path:  "deploy/manifests/feedsink.yaml",
		about: "feedsink with a Deployment for each lane. Put your configuration into the ConfigMap, and the\n# API key into a Secret named feedsink, key api-key.",
		kinds: []string{"ConfigMap", "ServiceAccount", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"},
	},
	{
		path:   "deploy/manifests/monitoring.yaml",
		about:  "For the Prometheus operator.",
		values: object{"serviceMonitor": object{"enabled": true}, "prometheusRule": object{"enabled": true}},
		kinds:  []string{"ServiceMonitor", "PrometheusRule"},
	},
	{
		path:   "deploy/keda/scaledobject.yaml",
		about:  "Scales the immediate lane on the lag of its own consumer group. Take `replicas` out of its\n# Deployment, or each apply sets them back. Brokers that want TLS or a password need a\n# TriggerAuthentication.",
		values: object{"immediate": object{"autoscaling": object{"kind": "keda"}}},
		kinds:  []string{"ScaledObject"},
	},
}

// helms are the labels that only Helm's own objects should have.
var helms = regexp.MustCompile(`(?m)^ *(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n`)

// Manifests renders the plain manifests, by their path below the repository's root.
func Manifests(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, m := range manifests {
		release := Release{Name: "feedsink", Namespace: "feedsink", Values: m.values}
		documents, err := release.Documents(filepath.Join(root, "deploy", "helm", "feedsink"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		var text strings.Builder
		text.WriteString("# Rendered from deploy/helm/feedsink by `make manifests`: change the chart, not this file.\n#\n# " + m.about + "\n")
		for _, kind := range m.kinds {
			for _, document := range documents {
				if slices.Contains(strings.Split(document, "\n"), "kind: "+kind) {
					text.WriteString("---\n" + helms.ReplaceAllString(document, ""))
				}
			}
		}
		files[m.path] = text.String()
	}
	return files, nil
}
