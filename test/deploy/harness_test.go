package deploy

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../../deploy/helm/feedsink"

// valuesFiles are the installations that every test of the chart looks at: the
// defaults, as "", and one for each way to run it.
func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("values files: got %d, %v, want at least 5", len(files), err)
	}
	return append(files, "")
}

func release(t *testing.T, file string) Release {
	t.Helper()
	r := Release{Name: "feedsink", Namespace: "feeds", Values: map[string]any{}}
	if file != "" {
		var err error
		if r.Values, err = ReadValues(file); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// types are the objects that the chart may make. Whatever else comes out of a
// template is an error.
var types = map[string]func() metav1.Object{
	"v1 ConfigMap":                                  func() metav1.Object { return &corev1.ConfigMap{} },
	"v1 Pod":                                        func() metav1.Object { return &corev1.Pod{} },
	"v1 Service":                                    func() metav1.Object { return &corev1.Service{} },
	"v1 ServiceAccount":                             func() metav1.Object { return &corev1.ServiceAccount{} },
	"apps/v1 Deployment":                            func() metav1.Object { return &appsv1.Deployment{} },
	"autoscaling/v2 HorizontalPodAutoscaler":        func() metav1.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
	"networking.k8s.io/v1 Ingress":                  func() metav1.Object { return &networkingv1.Ingress{} },
	"networking.k8s.io/v1 NetworkPolicy":            func() metav1.Object { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":                 func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	"monitoring.coreos.com/v1 ServiceMonitor":       func() metav1.Object { return &monitoringv1.ServiceMonitor{} },
	"monitoring.coreos.com/v1 PrometheusRule":       func() metav1.Object { return &monitoringv1.PrometheusRule{} },
	"keda.sh/v1alpha1 ScaledObject":                 func() metav1.Object { return &kedav1alpha1.ScaledObject{} },
	"v1 Namespace":                                  func() metav1.Object { return &corev1.Namespace{} },
	"kustomize.config.k8s.io/v1beta1 Kustomization": nil, // kustomize's, no object of the cluster
}

// decode is strict: a key that the type does not have is an error, and so is one
// that is there twice.
func decode(t *testing.T, document string) metav1.Object {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	name := kind.APIVersion + " " + kind.Kind
	empty, known := types[name]
	if !known {
		t.Fatalf("%q: is no kind of object that the chart should make:\n%s", name, document)
	}
	if empty == nil {
		return nil
	}
	object := empty()
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("%s: %v:\n%s", name, err, document)
	}
	return object
}

// objects are everything a release consists of, test pods included.
func objects(t *testing.T, file string) []metav1.Object {
	t.Helper()
	return objectsOf(t, release(t, file))
}

func objectsOf(t *testing.T, r Release) (all []metav1.Object) {
	t.Helper()
	files, err := r.Files(chart)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for _, document := range split(files[name]) {
			all = append(all, decode(t, document))
		}
	}
	return all
}

func of[T metav1.Object](objects []metav1.Object) (some []T) {
	for _, o := range objects {
		if o, ok := o.(T); ok {
			some = append(some, o)
		}
	}
	return some
}

// one is the object whose name ends so.
func one[T metav1.Object](t *testing.T, objects []metav1.Object, ending string) T {
	t.Helper()
	for _, o := range of[T](objects) {
		if strings.HasSuffix(o.GetName(), ending) {
			return o
		}
	}
	var none T
	t.Fatalf("no %T whose name ends with %q", none, ending)
	return none
}

// eachInstallation runs a test for every values file.
func eachInstallation(t *testing.T, test func(t *testing.T, file string, objects []metav1.Object)) {
	t.Helper()
	for _, file := range valuesFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if file == "" {
			name = "defaults"
		}
		t.Run(name, func(t *testing.T) { test(t, file, objects(t, file)) })
	}
}

// podSpec is a pod with what it is made from.
type podSpec struct {
	from string
	meta metav1.ObjectMeta
	spec corev1.PodSpec
}

func pods(objects []metav1.Object) (all []podSpec) {
	for _, d := range of[*appsv1.Deployment](objects) {
		all = append(all, podSpec{d.Name, d.Spec.Template.ObjectMeta, d.Spec.Template.Spec})
	}
	for _, p := range of[*corev1.Pod](objects) {
		all = append(all, podSpec{p.Name, p.ObjectMeta, p.Spec})
	}
	return all
}
