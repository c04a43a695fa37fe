package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/feedsink/feedsink/connector"
)

func TestChartLintsClean(t *testing.T) {
	for _, file := range valuesFiles(t) {
		for _, m := range lint.RunAll(chart, release(t, file).Values, "feeds").Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%q: %v", file, m)
			}
		}
	}
}

func TestObjectsAreStrictlyWhatKubernetesTakes(t *testing.T) {
	kinds := map[string]bool{}
	eachInstallation(t, func(t *testing.T, _ string, objects []metav1.Object) { // decoded strictly on the way
		seen := map[string]bool{}
		for _, o := range objects {
			kind := fmt.Sprintf("%T", o)
			kinds[kind] = true
			if id := kind + " " + o.GetName(); seen[id] {
				t.Errorf("%s: is there twice", id)
			} else {
				seen[id] = true
			}
			if o.GetNamespace() != "" {
				t.Errorf("%s %s: names a namespace, which is the installer's choice", kind, o.GetName())
			}
		}
	})
	for name, empty := range types {
		if strings.HasPrefix(name, "kustomize") || strings.HasSuffix(name, " Namespace") {
			continue
		}
		if !kinds[fmt.Sprintf("%T", empty())] {
			t.Errorf("%s: no values file makes one", name)
		}
	}
}

func TestPodsMeetTheRestrictedProfile(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	eachInstallation(t, func(t *testing.T, _ string, objects []metav1.Object) {
		for _, p := range pods(objects) {
			if result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &p.meta, &p.spec)); !result.Allowed {
				t.Errorf("%s: %s", p.from, result.ForbiddenDetail())
			}
			c := p.spec.Containers[0]
			if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: its root file system can be written to", p.from)
			}
			if p.spec.AutomountServiceAccountToken == nil || *p.spec.AutomountServiceAccountToken {
				t.Errorf("%s: has a token for the Kubernetes API", p.from)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: resources are %v", p.from, c.Resources)
			}
		}
	})
}

// What refers to something by name or label refers to something that is there.
func TestObjectsFitTogether(t *testing.T) {
	eachInstallation(t, func(t *testing.T, file string, objects []metav1.Object) {
		values := release(t, file).Values
		matched := func(what string, selector map[string]string) {
			t.Helper()
			for _, d := range of[*appsv1.Deployment](objects) {
				if labels.SelectorFromSet(selector).Matches(labels.Set(d.Spec.Template.Labels)) {
					return
				}
			}
			t.Errorf("%s: selects no pod: %v", what, selector)
		}
		for _, d := range of[*appsv1.Deployment](objects) {
			matched(d.Name, d.Spec.Selector.MatchLabels)
			for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
				matched(d.Name+" spread", spread.LabelSelector.MatchLabels)
			}
		}
		for _, s := range of[*corev1.Service](objects) {
			matched(s.Name, s.Spec.Selector)
		}
		for _, b := range of[*policyv1.PodDisruptionBudget](objects) {
			matched(b.Name, b.Spec.Selector.MatchLabels)
		}
		for _, n := range of[*networkingv1.NetworkPolicy](objects) {
			matched(n.Name, n.Spec.PodSelector.MatchLabels)
		}
		for _, m := range of[*monitoringv1.ServiceMonitor](objects) {
			scraped := 0
			for _, s := range of[*corev1.Service](objects) {
				if labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) {
					scraped++
				}
			}
			if scraped != 1 {
				t.Errorf("%s: got %d Services to scrape, want 1: pods must not be scraped twice", m.Name, scraped)
			}
		}
		var deployments, services []string
		for _, d := range of[*appsv1.Deployment](objects) {
			deployments = append(deployments, d.Name)
		}
		for _, s := range of[*corev1.Service](objects) {
			services = append(services, s.Name)
		}
		for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](objects) {
			if !slices.Contains(deployments, h.Spec.ScaleTargetRef.Name) {
				t.Errorf("%s: scales %q, want one of %q", h.Name, h.Spec.ScaleTargetRef.Name, deployments)
			}
		}
		for _, k := range of[*kedav1alpha1.ScaledObject](objects) {
			if !slices.Contains(deployments, k.Spec.ScaleTargetRef.Name) {
				t.Errorf("%s: scales %q, want one of %q", k.Name, k.Spec.ScaleTargetRef.Name, deployments)
			}
		}
		for _, i := range of[*networkingv1.Ingress](objects) {
			path := i.Spec.Rules[0].HTTP.Paths[0]
			if !slices.Contains(services, path.Backend.Service.Name) {
				t.Errorf("%s: leads to %q, want one of %q", i.Name, path.Backend.Service.Name, services)
			}
			if path.Path != "/webhooks/executions" || *path.PathType != networkingv1.PathTypeExact || len(i.Spec.Rules[0].HTTP.Paths) != 1 {
				t.Errorf("%s: exposes more than the webhook: %v", i.Name, i.Spec.Rules[0].HTTP.Paths)
			}
		}
		for _, p := range pods(objects) {
			volumesFit(t, p, objects, values)
		}
	})
}

func volumesFit(t *testing.T, p podSpec, objects []metav1.Object, values map[string]any) {
	t.Helper()
	var volumes []string
	for _, v := range p.spec.Volumes {
		volumes = append(volumes, v.Name)
		if v.Name != "config" {
			continue
		}
		exists := slices.ContainsFunc(of[*corev1.ConfigMap](objects), func(c *corev1.ConfigMap) bool { return c.Name == v.ConfigMap.Name })
		if !exists && v.ConfigMap.Name != values["existingConfigMap"] {
			t.Errorf("%s: mounts the ConfigMap %q, which nobody makes", p.from, v.ConfigMap.Name)
		}
	}
	for _, m := range p.spec.Containers[0].VolumeMounts {
		if !slices.Contains(volumes, m.Name) {
			t.Errorf("%s: mounts %q, want one of %q", p.from, m.Name, volumes)
		}
	}
}

// Kubernetes kills a pod that takes longer to stop.
func TestGracePeriodFitsTheDrain(t *testing.T) {
	eachInstallation(t, func(t *testing.T, file string, objects []metav1.Object) {
		if release(t, file).Values["existingConfigMap"] != nil {
			return // which is not known
		}
		for _, d := range of[*appsv1.Deployment](objects) {
			template := d.Spec.Template
			cfg := loaded(t, objects, podSpec{d.Name, template.ObjectMeta, template.Spec})
			if got, want := time.Duration(*template.Spec.TerminationGracePeriodSeconds)*time.Second, connector.DrainTime(cfg); got < want {
				t.Errorf("%s: got %v, want at least %v", d.Name, got, want)
			}
		}
	})
}

// A table that moves begins its open file again: a roll-out moves each once. Calls
// go on meanwhile.
func TestRollOutSuitsTheLane(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects []metav1.Object) {
		for _, d := range of[*appsv1.Deployment](objects) {
			s := d.Spec.Strategy
			switch tables := !strings.HasSuffix(d.Name, "-immediate"); {
			case tables && s.RollingUpdate != nil && s.RollingUpdate.MaxSurge.IntValue() != 0:
				t.Errorf("%s: tables move twice: %v", d.Name, s.RollingUpdate)
			case !tables && s.RollingUpdate.MaxUnavailable.IntValue() != 0:
				t.Errorf("%s: calls have a gap: %v", d.Name, s.RollingUpdate)
			}
		}
	})
}
