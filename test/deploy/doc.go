// Package deploy renders the Helm chart in process, for the plain manifests and
// for the tests of everything in the folder deploy: chart, manifests, alert
// rules, runbooks and dashboard.
//
// It knows Helm's engine and the chart's place. It knows nothing of a cluster:
// what is rendered is checked against Kubernetes' own Go types instead.
package deploy
