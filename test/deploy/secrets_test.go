package deploy

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/feedsink/feedsink/connector/config"
)

// fileKeys are the configuration's keys that name files, but for those of mappings,
// as kafka.tls.caFile.
func fileKeys(t reflect.Type, path string) (keys []string) {
	for field := range t.Fields() {
		key := strings.TrimPrefix(path+"."+field.Tag.Get("yaml"), ".")
		switch {
		case field.Type.Kind() == reflect.Struct:
			keys = append(keys, fileKeys(field.Type, key)...)
		case strings.HasSuffix(key, "File"):
			keys = append(keys, key)
		}
	}
	return keys
}

// written are the keys of a configuration whose value is a file of the Secrets.
func written(value any, path string, into map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			written(inner, strings.TrimPrefix(path+"."+key, "."), into)
		}
	case string:
		if strings.HasPrefix(v, "/run/secrets/feedsink/") {
			into[path] = true
		}
	}
}

// Whatever the configuration takes from a file, the chart can take from a Secret.
func TestEveryFileOfTheConfigurationCanBeASecret(t *testing.T) {
	withToken := release(t, "testdata/values/secured.yaml")
	withToken.Values["secrets"].(map[string]any)["kafkaPassword"] = map[string]any{"name": ""}
	withToken.Values["secrets"].(map[string]any)["kafkaToken"] = map[string]any{"name": "feeds"}
	withToken.Values["secrets"].(map[string]any)["oauthTLS"] = map[string]any{"name": ""}
	withToken.Values["config"].(map[string]any)["kafka"].(map[string]any)["sasl"] = map[string]any{"mechanism": "OAUTHBEARER"}
	got := map[string]bool{}
	for _, r := range []Release{release(t, "testdata/values/production.yaml"), release(t, "testdata/values/secured.yaml"), withToken} {
		all := objectsOf(t, r)
		loaded(t, all, pods(all)[0]) // the files are mounted, and feedsink takes them
		var file map[string]any
		if err := yaml.Unmarshal([]byte(one[*corev1.ConfigMap](t, all, "feeds").Data["feedsink.yaml"]), &file); err != nil {
			t.Fatal(err)
		}
		written(file, "", got)
	}
	want := fileKeys(reflect.TypeFor[config.Config](), "")
	if slices.Sort(want); len(want) < 20 {
		t.Fatalf("found %d keys only: %q", len(want), want)
	}
	if got := slices.Sorted(maps.Keys(got)); !slices.Equal(got, want) {
		t.Errorf("keys that a Secret fills: got\n%q, want\n%q", got, want)
	}
}

// Probes, Prometheus and whoever reads the notes speak what the pods speak.
func TestAdminServerIsCalledAsItAnswers(t *testing.T) {
	seen := map[bool]bool{}
	eachInstallation(t, func(t *testing.T, file string, objects []metav1.Object) {
		r := release(t, file)
		if r.Values["existingConfigMap"] != nil {
			return // which is not known
		}
		for _, d := range of[*appsv1.Deployment](objects) {
			cfg := loaded(t, objects, podSpec{d.Name, d.Spec.Template.ObjectMeta, d.Spec.Template.Spec})
			secured := cfg.Admin.TLS.CertFile != ""
			seen[secured] = true
			calledAs(t, r, objects, secured)
		}
	})
	if !seen[true] || !seen[false] {
		t.Errorf("values files with and without TLS: got %v, want both", seen)
	}
}

func calledAs(t *testing.T, r Release, objects []metav1.Object, secured bool) {
	t.Helper()
	probed, protocol, scheme := corev1.URIScheme(""), "", "http"
	if secured {
		probed, protocol, scheme = corev1.URISchemeHTTPS, "https", "https"
	}
	for _, d := range of[*appsv1.Deployment](objects) {
		c := d.Spec.Template.Spec.Containers[0]
		for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if p.HTTPGet.Scheme != probed {
				t.Errorf("%s: probes %s by %q, want %q", d.Name, p.HTTPGet.Path, p.HTTPGet.Scheme, probed)
			}
		}
	}
	for _, s := range of[*corev1.Service](objects) {
		if got := s.Spec.Ports[0].AppProtocol; (got != nil) != secured || got != nil && *got != protocol {
			t.Errorf("%s: appProtocol: got %v, want %q", s.Name, got, protocol)
		}
	}
	for _, m := range of[*monitoringv1.ServiceMonitor](objects) {
		if got := m.Spec.Endpoints[0]; (got.Scheme != nil && *got.Scheme == "https") != secured || (got.TLSConfig != nil) != secured {
			t.Errorf("%s: scrapes by %v with %+v, want https: %t", m.Name, got.Scheme, got.TLSConfig, secured)
		}
	}
	files, err := r.Files(chart)
	if err != nil {
		t.Fatal(err)
	}
	if want := "open " + scheme + "://127.0.0.1:8080/"; !strings.Contains(files["NOTES.txt"], want) {
		t.Errorf("the notes lack %q:\n%s", want, files["NOTES.txt"])
	}
}

func TestPrometheusKnowsThePodsAndShowsTheToken(t *testing.T) {
	all := objects(t, "testdata/values/secured.yaml")
	got := one[*monitoringv1.ServiceMonitor](t, all, "feeds").Spec.Endpoints[0]
	if got.TLSConfig == nil || got.TLSConfig.CA.Secret == nil || got.TLSConfig.CA.Secret.Name != "feeds-admin-tls" || got.TLSConfig.CA.Secret.Key != "ca.crt" {
		t.Fatalf("tlsConfig: got %+v, want the authority of the admin server's Secret", got.TLSConfig)
	}
	if name := got.TLSConfig.ServerName; name == nil || *name != "feeds.feeds.svc" {
		t.Errorf("serverName: got %v, want the Service's", name)
	}
	if got.Authorization == nil || got.Authorization.Credentials.Name != "feeds-admin" || got.Authorization.Credentials.Key != "token" {
		t.Errorf("authorization: got %+v, want the admin token's Secret", got.Authorization)
	}
	r := release(t, "testdata/values/secured.yaml")
	r.Values["secrets"].(map[string]any)["adminTLS"].(map[string]any)["ca"] = ""
	r.Values["serviceMonitor"] = map[string]any{"enabled": true, "endpoint": map[string]any{"tlsConfig": map[string]any{"serverName": "feeds.example.com"}, "scrapeTimeout": "9s"}}
	got = one[*monitoringv1.ServiceMonitor](t, objectsOf(t, r), "feeds").Spec.Endpoints[0]
	if got.TLSConfig.CA.Secret != nil || *got.TLSConfig.ServerName != "feeds.example.com" || got.ScrapeTimeout != "9s" || got.Interval != "30s" {
		t.Errorf("with settings of one's own: got %+v, want those over the chart's", got)
	}
	// Reading is free: the token stays where it is.
	r = release(t, "testdata/values/production.yaml")
	r.Values["secrets"].(map[string]any)["adminToken"] = map[string]any{"name": "feeds-admin"}
	if got := one[*monitoringv1.ServiceMonitor](t, objectsOf(t, r), "feeds").Spec.Endpoints[0]; got.Authorization != nil {
		t.Errorf("without protectReads: got %+v, want no token sent", got.Authorization)
	}
}

// With a ConfigMap of one's own the Secret's name says that there is TLS.
func TestOwnConfigurationMayNameTheAdminServersCertificate(t *testing.T) {
	r := release(t, "testdata/values/own-config.yaml")
	r.Values["secrets"] = map[string]any{"adminTLS": map[string]any{"name": "feeds-admin-tls"}}
	all := objectsOf(t, r)
	calledAs(t, r, all, true)
	var paths []string
	for _, v := range pods(all)[0].spec.Volumes {
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				for _, item := range source.Secret.Items {
					paths = append(paths, item.Path)
				}
			}
		}
	}
	if want := []string{"api-key", "admin.crt", "admin.key"}; !slices.Equal(paths, want) {
		t.Errorf("mounted: got %q, want %q and nothing that only callers need", paths, want)
	}
}
