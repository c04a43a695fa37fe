package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router/check"
)

// mounted makes the files that a pod's Secrets would be, in a folder of the test,
// and returns where.
func mounted(t *testing.T, p podSpec) string {
	t.Helper()
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	for _, v := range p.spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			for _, item := range source.Secret.Items {
				content := []byte("a-secret")
				switch filepath.Ext(item.Path) {
				case ".crt":
					content = certificate
				case ".key":
					content = key
				}
				if err := os.WriteFile(filepath.Join(dir, item.Path), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return dir
}

func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// loaded is what a pod of the release would run with.
func loaded(t *testing.T, objects []metav1.Object, p podSpec) *config.Config {
	t.Helper()
	var text string
	for _, v := range p.spec.Volumes {
		if v.Name == "config" {
			text = one[*corev1.ConfigMap](t, objects, v.ConfigMap.Name).Data["feedsink.yaml"]
		}
	}
	env := map[string]string{}
	for _, e := range p.spec.Containers[0].Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			env[e.Name] = "from-a-secret"
		}
	}
	text = strings.ReplaceAll(text, "/run/secrets/feedsink", mounted(t, p))
	cfg, err := config.Parse("feedsink.yaml", []byte(text), func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	if err != nil {
		t.Fatalf("%s: the configuration it would start with: %v", p.from, err)
	}
	if _, problems := check.Compile(cfg.Mappings); len(problems) > 0 {
		t.Fatalf("%s: %v", p.from, problems)
	}
	return cfg
}

func TestPodsStartWithTheirConfiguration(t *testing.T) {
	eachInstallation(t, func(t *testing.T, file string, objects []metav1.Object) {
		if release(t, file).Values["existingConfigMap"] != nil {
			return // it is the installer's
		}
		for _, p := range pods(objects) {
			cfg := loaded(t, objects, p)
			if cfg.Admin.Listen != ":8080" {
				t.Errorf("%s: admin.listen: got %q, want the port of the probes", p.from, cfg.Admin.Listen)
			}
			for _, v := range p.spec.Volumes {
				if v.EmptyDir == nil {
					continue
				}
				if size := v.EmptyDir.SizeLimit.Value(); size <= int64(cfg.Spool.MaxBytes)*105/100 {
					t.Errorf("%s: got a spool of %v on a volume of %v: it must pause before it is evicted", p.from, cfg.Spool.MaxBytes, v.EmptyDir.SizeLimit)
				}
			}
		}
	})
}

// TestAdminServerIsKnownByTheServicesNames: a request by another name is refused.
func TestAdminServerIsKnownByTheServicesNames(t *testing.T) {
	eachInstallation(t, func(t *testing.T, file string, objects []metav1.Object) {
		if release(t, file).Values["existingConfigMap"] != nil {
			return // it is the installer's
		}
		for _, o := range objects {
			service, ok := o.(*corev1.Service)
			if !ok || service.Labels["app.kubernetes.io/component"] != "admin" {
				continue
			}
			for _, p := range pods(objects) {
				hosts := strings.Join(loaded(t, objects, p).Admin.Hosts, " ") + " "
				for _, want := range []string{service.Name + " ", service.Name + ".", ".svc ", ".svc.cluster.local "} {
					if !strings.Contains(hosts, want) {
						t.Errorf("%s: got admin.hosts %q, want a name with %q", p.from, hosts, want)
					}
				}
			}
		}
	})
	if got := one[*corev1.ConfigMap](t, objects(t, "testdata/values/secured.yaml"), "feeds").Data["feedsink.yaml"]; !strings.Contains(got, "- feeds.example.com") {
		t.Errorf("got\n%s\nwant the host of the values as well", got)
	}
}

func TestSecretsReachTheConfiguration(t *testing.T) {
	all := objects(t, "testdata/values/production.yaml")
	p := pods(all)[0]
	text := one[*corev1.ConfigMap](t, all, "feeds").Data["feedsink.yaml"]
	for _, want := range []string{
		"apiKeyFile: /run/secrets/feedsink/api-key",
		"passwordFile: /run/secrets/feedsink/kafka-password",
		"caFile: /run/secrets/feedsink/kafka-ca.crt",
		"certFile: /run/secrets/feedsink/kafka.crt",
		"keyFile: /run/secrets/feedsink/kafka.key",
		"caFile: /run/secrets/feedsink/service-ca.crt",
		"certFile: /run/secrets/feedsink/service.crt",
		"keyFile: /run/secrets/feedsink/service.key",
		"secretFile: /run/secrets/feedsink/webhook-secret",
		"members: feeds-members:8080",
		"mechanism: SCRAM-SHA-512",
		"enabled: true",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("feedsink.yaml lacks %q:\n%s", want, text)
		}
	}
	for _, file := range []string{"api-key", "kafka-password", "kafka-ca.crt", "kafka.crt", "kafka.key", "service-ca.crt", "service.crt", "service.key", "webhook-secret"} {
		if _, err := os.Stat(filepath.Join(mounted(t, p), file)); err != nil {
			t.Errorf("%s: is not mounted: %v", file, err)
		}
	}
	one[*corev1.Service](t, all, "feeds-members")
}

func TestSecretOfOAuthIsTheClients(t *testing.T) {
	r := release(t, "testdata/values/production.yaml")
	r.Values["config"].(map[string]any)["kafka"].(map[string]any)["sasl"] = map[string]any{
		"mechanism": "OAUTHBEARER", "oauth": map[string]any{"tokenURL": "https://login.example.com:8444/token", "clientId": "feeds"},
	}
	all := objectsOf(t, r)
	cfg := loaded(t, all, pods(all)[0])
	if got := cfg.Kafka.SASL; got.PasswordFile != "" || !strings.HasSuffix(got.OAuth.ClientSecretFile, "/kafka-password") {
		t.Errorf("sasl: got %+v, want the client's secret", got)
	}
	if got := egressPorts(t, all); !slices.Contains(got, 8444) {
		t.Errorf("egress: got ports %v, want the token endpoint's among them", got)
	}
}

// egressPorts are the TCP ports that pods may reach anywhere, but for DNS.
func egressPorts(t *testing.T, all []metav1.Object) (ports []int) {
	t.Helper()
	for _, rule := range one[*networkingv1.NetworkPolicy](t, all, "").Spec.Egress {
		for _, port := range rule.Ports {
			if len(rule.To) == 0 && port.Port.IntValue() != 53 {
				ports = append(ports, port.Port.IntValue())
			}
		}
	}
	return ports
}

// TestPodsReachThePortsOfTheAddresses: also where variables are part of them; where one
// may have the port, it has to be said.
func TestPodsReachThePortsOfTheAddresses(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		config m
		want   []int
		refuse string // the key whose port is not known; egressPorts are 1 then
	}{
		"defaults":               {m{}, []int{443, 9092}, ""},
		"ports":                  {m{"service": m{"baseURL": "https://[fd00::1]:8443/x", "authURL": "http://[fd00::1]", "proxy": "http://p:3128"}}, []int{3128, 80, 8443, 9092}, ""},
		"more ports":             {m{"tracing": m{"endpoint": "http://otel:4318"}, "schemaRegistry": m{"url": "https://u:p@registry"}}, []int{4318, 443, 9092}, ""},
		"a secret":               {m{"service": m{"proxy": "http://u:${PASSWORD}@proxy:3128"}}, []int{3128, 443, 9092}, ""},
		"a secret and no port":   {m{"service": m{"proxy": "http://u:${PASSWORD}@proxy"}}, []int{443, 80, 9092}, ""},
		"a host":                 {m{"kafka": m{"brokers": []any{"${BROKER:-a:1}:9093"}}, "service": m{"baseURL": "https://${HOST}:8443/"}}, []int{443, 8443, 9093}, ""},
		"a path":                 {m{"service": m{"baseURL": "https://feeds.example.com/${TENANT}"}}, []int{443, 9092}, ""},
		"a broker":               {m{"kafka": m{"brokers": []any{"${BROKER}"}}}, []int{1, 443}, "kafka.brokers"},
		"one of two brokers":     {m{"kafka": m{"brokers": []any{"kafka:9092", "${BROKER:-kafka:9093}"}}}, []int{1, 443, 9092}, "kafka.brokers"},
		"a broker's port":        {m{"kafka": m{"brokers": []any{"kafka:${PORT}"}}}, []int{1, 443}, "kafka.brokers"},
		"the service":            {m{"service": m{"baseURL": "${BASE}"}}, []int{1, 443, 9092}, "service.baseURL"},
		"the service's host":     {m{"service": m{"authURL": "https://${HOST}/token"}}, []int{1, 443, 9092}, "service.authURL"},
		"with a default":         {m{"service": m{"authURL": "${AUTH:-https://auth.example.com:8443}"}}, []int{1, 443, 9092}, "service.authURL"},
		"a proxy":                {m{"service": m{"proxy": "${PROXY}"}}, []int{1, 443, 9092}, "service.proxy"},
		"a registry":             {m{"schemaRegistry": m{"url": "${REGISTRY}"}}, []int{1, 443, 9092}, "schemaRegistry.url"},
		"a collector":            {m{"tracing": m{"endpoint": "http://otel:${PORT}"}}, []int{1, 443, 9092}, "tracing.endpoint"},
		"an authority of tokens": {m{"kafka": m{"sasl": m{"oauth": m{"tokenURL": "${TOKENS}/token"}}}}, []int{1, 443, 9092}, "kafka.sasl.oauth.tokenURL"},
	} {
		t.Run(name, func(t *testing.T) {
			r := release(t, "")
			r.Values["config"] = c.config
			_, err := r.Files(chart)
			if want := "config." + c.refuse + " names no port"; (c.refuse == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error only where a port is not known: %q", err, c.refuse)
			}
			if c.refuse != "" {
				r.Values["networkPolicy"] = m{"egressPorts": []any{1}}
			}
			got := egressPorts(t, objectsOf(t, r))
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("ports: got %v, want %v", got, c.want)
			}
		})
	}
}

// TestPodsReachWhatGivesKeysOfAWS: the agent of EKS Pod Identity, on the node's own address,
// and AWS's token service. A port that is said twice is one.
func TestPodsReachWhatGivesKeysOfAWS(t *testing.T) {
	type m = map[string]any
	for mechanism, want := range map[string]string{"AWS_MSK_IAM": "[443 8443 9098] [169.254.170.23/32 fd00:ec2::23/128]", "SCRAM-SHA-512": "[8443 9098] []"} {
		r := release(t, "")
		r.Values["config"] = m{
			"kafka":   m{"brokers": []any{"b-1:9098"}, "sasl": m{"mechanism": mechanism}},
			"service": m{"baseURL": "https://feeds:8443", "authURL": "https://auth:8443"},
		}
		r.Values["networkPolicy"] = m{"egressPorts": []any{9098.0}}
		all := objectsOf(t, r)
		agents := []string{}
		for _, rule := range one[*networkingv1.NetworkPolicy](t, all, "").Spec.Egress {
			for _, to := range rule.To {
				if to.IPBlock != nil && rule.Ports[0].Port.IntValue() == 80 {
					agents = append(agents, to.IPBlock.CIDR)
				}
			}
		}
		if got := fmt.Sprint(egressPorts(t, all), agents); got != want {
			t.Errorf("%s: got ports and agents %s, want %s", mechanism, got, want)
		}
	}
}

func TestPodsRollWhenTheConfigurationChanges(t *testing.T) {
	checksum := func(change func(map[string]any)) string {
		r := release(t, "")
		change(r.Values)
		d := one[*appsv1.Deployment](t, objectsOf(t, r), "-batch")
		return d.Spec.Template.Annotations["checksum/config"]
	}
	same := checksum(func(map[string]any) {})
	if got := checksum(func(v map[string]any) { v["batch"] = map[string]any{"replicas": 3} }); got != same || same == "" {
		t.Errorf("with the same configuration: got %q, want %q", got, same)
	}
	if got := checksum(func(v map[string]any) { v["config"] = map[string]any{"dlq": map[string]any{"topic": "other"}} }); got == same {
		t.Errorf("with another dead-letter topic: got the same checksum %q", got)
	}
	if got := checksum(func(v map[string]any) { v["spool"] = map[string]any{"gibibytes": 7} }); got == same {
		t.Errorf("with another spool: got the same checksum %q", got)
	}
}

// TestPodsThatWatchRollForWhatNeedsARestart: they reload what else changes.
func TestPodsThatWatchRollForWhatNeedsARestart(t *testing.T) {
	type m = map[string]any
	rendered := func(config m) (checksum string, args []string) {
		r := release(t, "")
		r.Values["reload"] = m{"watch": true}
		if config != nil {
			r.Values["config"] = config
		}
		d := one[*appsv1.Deployment](t, objectsOf(t, r), "-batch")
		return d.Spec.Template.Annotations["checksum/config"], d.Spec.Template.Spec.Containers[0].Args
	}
	same, args := rendered(nil)
	if !slices.Contains(args, "--watch") || same == "" {
		t.Errorf("arguments: got %q with checksum %q, want --watch and a checksum", args, same)
	}
	for what, c := range map[string]struct {
		config m
		rolls  bool
	}{
		"another dead-letter topic": {m{"dlq": m{"topic": "other"}}, false},
		"another rate":              {m{"service": m{"rate": m{"calls": 5}}}, false},
		"another timeout":           {m{"service": m{"timeout": "20s"}}, true},
		"another group":             {m{"kafka": m{"group": "other"}}, true},
		"another format of the log": {m{"log": m{"format": "text"}}, true},
		"another level of the log":  {m{"log": m{"level": "debug"}}, false},
		"less memory":               {m{"memory": m{"pending": "32MiB"}}, true},
	} {
		if got, _ := rendered(c.config); (got != same) != c.rolls {
			t.Errorf("%s: checksum changed %t, want %t", what, got != same, c.rolls)
		}
	}
}

// Values that can only end in pods that do not start, or start and do nothing.
func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	type m = map[string]any
	ingress := m{"ingress": m{"enabled": true, "host": "a"}}
	for name, c := range map[string]struct {
		values m
		want   string
	}{
		"unknown key":             {m{"replicas": 3}, "replicas"},
		"unknown lane":            {m{"lanes": "both"}, "lanes"},
		"no broker":               {m{"config": m{"kafka": m{"brokers": []any{}}}}, "brokers"},
		"root":                    {m{"podSecurityContext": m{"runAsUser": 0}}, "runAsUser"},
		"a short drain":           {m{"terminationGracePeriodSeconds": 10}, "terminationGracePeriodSeconds"},
		"calls after the drain":   {m{"config": m{"service": m{"timeout": "1m0.5s"}}}, "terminationGracePeriodSeconds: is 60, and stopping waits 66 s"},
		"keda for both lanes":     {m{"lanes": "together", "immediate": m{"autoscaling": m{"kind": "keda"}}}, "immediate.autoscaling.kind: keda scales"},
		"hpa for both lanes":      {m{"lanes": "together", "immediate": m{"autoscaling": m{"kind": "hpa"}}}, "immediate.autoscaling.kind: hpa scales"},
		"no lane at all":          {m{"immediate": m{"enabled": false}, "batch": m{"enabled": false}}, "at least one of them"},
		"a lane without a member": {m{"batch": m{"enabled": false}}, "its events would not be written"},
		"a lane without mapping":  {m{"config": m{"mappings": []any{m{"name": "a", "topics": []any{"a"}, "routes": []any{m{"lane": "immediate"}}}}}}, "no mapping uses the batch lane"},
		"a claim without name":    {m{"spool": m{"volume": "existingClaim"}}, "spool.existingClaim: is required"},
		"a claim for two":         {m{"spool": m{"volume": "existingClaim", "existingClaim": "a"}, "batch": m{"replicas": 2}}, "batch.replicas: must be 1"},
		"a webhook with no lock":  {m{"webhook": ingress}, "secrets.webhook.name"},
		"metrics locked up":       {m{"config": m{"admin": m{"protectReads": true}}, "serviceMonitor": m{"enabled": true}}, "secrets.adminToken"},
		"a server without a key":  {m{"secrets": m{"adminTLS": m{"name": "a", "key": ""}}}, "adminTLS"},
		"ports nobody knows":      {m{"existingConfigMap": "a"}, "networkPolicy.egressPorts"},
		"too little memory":       {m{"config": m{"memory": m{"pending": "512MiB"}}}, "immediate.goMemLimit: is 220 MiB, and config.memory and the mappings' files need 608 MiB"},
		"memory of tables":        {m{"lanes": "together", "all": m{"goMemLimit": "220MiB"}}, "all.goMemLimit: is 220 MiB, and config.memory and the mappings' files need 228 MiB"},
		"memory of large files":   {m{"config": m{"mappings": filed(m{"roll": m{"rows": 0}, "maxFile": m{"rows": 1_000_000_000}})}}, "batch.goMemLimit: is 900 MiB, and config.memory and the mappings' files need 2071 MiB"},
		"no room beside the heap": {m{"batch": m{"resources": m{"limits": m{"memory": "900M"}}}}, "batch.goMemLimit: must be below resources.limits.memory"},
		"keda without brokers":    {m{"existingConfigMap": "a", "networkPolicy": m{"enabled": false}, "immediate": m{"autoscaling": m{"kind": "keda"}}}, "keda needs config"},
		"keda for a variable":     {m{"config": m{"kafka": m{"group": "${GROUP}"}}, "immediate": m{"autoscaling": m{"kind": "keda"}}}, "write consumerGroup into immediate.autoscaling.keda.metadata"},
		"keda for brokers of one": {
			m{"networkPolicy": m{"enabled": false}, "config": m{"kafka": m{"brokers": []any{"a:9092", "${BROKER}"}}}, "immediate": m{"autoscaling": m{"kind": "keda", "keda": m{"metadata": m{"consumerGroup": "a-immediate"}}}}},
			"write bootstrapServers into immediate.autoscaling.keda.metadata",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Release{Name: "feedsink", Namespace: "feeds", Values: c.values}.Files(chart)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %q", err, c.want)
			}
		})
	}
}

// TestLogIsAsTheConfigurationSays unless values of the chart say otherwise, which become flags.
func TestLogIsAsTheConfigurationSays(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		values m
		config []string // lines of feedsink.yaml
		flags  []string // of the immediate lane
	}{
		"nothing said": {m{}, []string{"log:", "  format: json"}, nil},
		"by config":    {m{"config": m{"log": m{"format": "text", "level": "debug"}}}, []string{"log:", "  format: text", "  level: debug"}, nil},
		"a level":      {m{"config": m{"log": m{"level": "debug"}}}, []string{"log:", "  format: json", "  level: debug"}, nil},
		"by values":    {m{"logFormat": "text", "immediate": m{"logLevel": "warn"}}, []string{"log:", "  format: json"}, []string{"--log-format=text", "--log-level=warn"}},
		"another's ConfigMap": {
			m{"existingConfigMap": "a", "networkPolicy": m{"enabled": false}}, nil, []string{"--log-format=json"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := release(t, "")
			r.Values = c.values
			objects := objectsOf(t, r)
			for _, cm := range of[*corev1.ConfigMap](objects) {
				if want := strings.Join(c.config, "\n") + "\n"; c.config != nil && !strings.Contains(cm.Data["feedsink.yaml"], "\n"+want) {
					t.Errorf("got\n%s\nwant\n%s", cm.Data["feedsink.yaml"], want)
				}
			}
			for _, p := range pods(objects) {
				args := slices.DeleteFunc(slices.Clone(p.spec.Containers[0].Args), func(arg string) bool { return !strings.HasPrefix(arg, "--log-") })
				if strings.HasSuffix(p.from, "immediate") && !slices.Equal(args, c.flags) {
					t.Errorf("%s: got flags %q, want %q", p.from, args, c.flags)
				}
			}
		})
	}
}

// TestKedaTakesWhatItsValuesName where the configuration names variables.
func TestKedaTakesWhatItsValuesName(t *testing.T) {
	type m = map[string]any
	r := release(t, "")
	r.Values = m{
		"networkPolicy": m{"enabled": false},
		"config":        m{"kafka": m{"brokers": []any{"${BROKER}"}, "group": "${GROUP}"}},
		"immediate":     m{"autoscaling": m{"kind": "keda", "keda": m{"metadata": m{"bootstrapServers": "a:9092", "consumerGroup": "a-immediate"}}}},
	}
	got := of[*kedav1alpha1.ScaledObject](objectsOf(t, r))[0].Spec.Triggers[0].Metadata
	if got["bootstrapServers"] != "a:9092" || got["consumerGroup"] != "a-immediate" || got["lagThreshold"] != "1000" {
		t.Errorf("got %v, want what the values name", got)
	}
}

// filed is the chart's mapping with more to say of its imports.
func filed(imports map[string]any) []any {
	type m = map[string]any
	own := m{"upsert": m{"etl": "101", "mode": "CREATE_OR_UPDATE"}, "columns": []any{"customerNumber"}}
	maps.Copy(own, imports)
	return []any{m{
		"name": "customers", "topics": []any{"crm.customers"}, "profileTable": "customers", "key": "customerNumber",
		"routes": []any{m{"when": `segments.tier == "gold"`, "lane": "immediate"}, m{"lane": "batch"}}, "imports": own,
	}}
}

// TestMemoryOfFilesIsOfTheRowsThatTheyMayHave: those of maxFile decide where they are set, as
// in feedsink.
func TestMemoryOfFilesIsOfTheRowsThatTheyMayHave(t *testing.T) {
	type m = map[string]any
	r := release(t, "")
	r.Values["config"] = m{"mappings": filed(m{"roll": m{"rows": 1_000_000_000}, "maxFile": m{"rows": 500_000}})}
	if _, err := r.Files(chart); err != nil {
		t.Error(err)
	}
}

// TestPodsHaveTheirLabelsOnce: those of the release stay, whatever is said of them; they are
// what the pods are found by. Resources need not be said.
func TestPodsHaveTheirLabelsOnce(t *testing.T) {
	type m = map[string]any
	r := release(t, "")
	r.Values = m{
		"podLabels":      m{"app.kubernetes.io/instance": "another", "team": "marketing"},
		"podAnnotations": m{"kubectl.kubernetes.io/default-container": "another", "checksum/config": "0"},
		"serviceMonitor": m{"enabled": true, "labels": m{"app.kubernetes.io/instance": "prometheus"}},
		"prometheusRule": m{"enabled": true, "labels": m{"app.kubernetes.io/instance": "prometheus"}},
		"dashboard":      m{"enabled": true, "labels": m{"app.kubernetes.io/instance": "grafana"}},
		"batch":          m{"resources": nil},
	}
	all := objectsOf(t, r) // a key that is there twice is an error
	pod := one[*appsv1.Deployment](t, all, "-batch").Spec.Template
	if got := pod.Labels; got["app.kubernetes.io/instance"] != "feedsink" || got["app.kubernetes.io/component"] != "batch" || got["team"] != "marketing" {
		t.Errorf("labels: got %v, want the chart's and team", got)
	}
	if got := pod.Annotations; got["kubectl.kubernetes.io/default-container"] != "another" || len(got["checksum/config"]) < 64 {
		t.Errorf("annotations: got %v, want another container and a checksum", got)
	}
	if got := one[*monitoringv1.ServiceMonitor](t, all, "").Labels["app.kubernetes.io/instance"]; got != "prometheus" {
		t.Errorf("ServiceMonitor: got instance %q, want what Prometheus looks for", got)
	}
}

// TestHeapWithoutLimitIsTaken: where neither Go nor Kubernetes bounds the memory, there is
// nothing that it could be too little for.
func TestHeapWithoutLimitIsTaken(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		limit any
		want  string
	}{
		{nil, ""},
		{"1Gi", ""},
		{"64Mi", "batch.goMemLimit: is 64 MiB, and config.memory and the mappings' files need 164 MiB"},
	} {
		r := release(t, "")
		r.Values["batch"] = m{"goMemLimit": "off", "resources": m{"limits": m{"memory": c.limit}}}
		_, err := r.Files(chart)
		if got := fmt.Sprint(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("off, with a memory limit of %v: got %v, want %q", c.limit, err, c.want)
		}
	}
}
