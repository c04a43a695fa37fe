package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const usual = `kafka: {brokers: [broker:9092]}
service: {baseURL: "https://service", authURL: "https://auth", entity: acme, apiKey: key}
mappings: [{name: orders, topics: [orders], customTable: orders, key: businessKey, routes: [{lane: immediate}]}]
`

// found are the paths of a file's problems.
func found(t *testing.T, file string) (paths []string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Parse("feedsink.yaml", []byte(strings.ReplaceAll(file, "SECRET", secret)), os.LookupEnv)
	if err == nil {
		return nil
	}
	all, ok := errors.AsType[*Problems](err)
	if !ok {
		t.Fatal(err)
	}
	for _, p := range all.List {
		paths = append(paths, p.Path)
		if p.Hint == "" && !strings.HasSuffix(p.Path, "File") {
			t.Errorf("%s: %s: no hint", p.Path, p.Message)
		}
	}
	return paths
}

func TestSecretsCrossNoNetworkInPlainText(t *testing.T) {
	const registry = "schemaRegistry: {url: \"%s\"%s}\n"
	for _, c := range []struct{ from, to, want string }{
		{"https://service", "http://service", "service.baseURL"},
		{"https://auth", "http://10.0.0.1:8090", "service.authURL"},
		{"https://auth", "http://localhost.example.com", "service.authURL"},
		{"https://auth", "http://localhost:8090", ""},
		{"https://auth", "http://127.0.0.2", ""},
		{"https://auth", "http://[::1]:80", ""},
		{"https://auth\"", "http://auth\", allowPlaintext: true", ""},
		{"kafka:", fmt.Sprintf(registry, "http://registry", "") + "kafka:", ""},
		{"kafka:", fmt.Sprintf(registry, "http://u:p@registry", "") + "kafka:", "schemaRegistry.url"},
		{"kafka:", fmt.Sprintf(registry, "http://registry", ", username: u, passwordFile: SECRET") + "kafka:", "schemaRegistry.url"},
		{"kafka:", fmt.Sprintf(registry, "http://u:p@registry", ", allowPlaintext: true") + "kafka:", ""},
		{"kafka:", fmt.Sprintf(registry, "https://u:p@registry", "") + "kafka:", ""},
		{"9092]", "9092], sasl: {mechanism: PLAIN, username: u, passwordFile: SECRET}", "kafka.sasl.mechanism"},
		{"9092]", "9092], sasl: {mechanism: PLAIN, username: u, passwordFile: SECRET, allowPlaintext: true}", ""},
		{"9092]", "9092], tls: {enabled: true}, sasl: {mechanism: PLAIN, username: u, passwordFile: SECRET}", ""},
		{"broker:9092]", "localhost:9092], sasl: {mechanism: PLAIN, username: u, passwordFile: SECRET}", ""},
		{"9092]", "9092], sasl: {mechanism: SCRAM-SHA-512, username: u, passwordFile: SECRET}", ""},
		{"9092]", "9092], sasl: {mechanism: OAUTHBEARER, oauth: {tokenFile: SECRET}}", "kafka.sasl.mechanism"},
		{"9092]", "9092], tls: {enabled: true}, sasl: {mechanism: OAUTHBEARER, oauth: {tokenURL: 'http://login', clientId: i, clientSecretFile: SECRET}}", "kafka.sasl.oauth.tokenURL"},
	} {
		file := strings.Replace(usual, c.from, c.to, 1)
		if file == usual {
			t.Fatalf("%q is not in the file", c.from)
		}
		if got := strings.Join(found(t, file), " "); got != c.want {
			t.Errorf("%s: got problems of %q, want %q", c.to, got, c.want)
		}
	}
}

func TestCredentialsFitTheirMechanism(t *testing.T) {
	const tls = "9092], tls: {enabled: true}, sasl: "
	for sasl, want := range map[string]string{
		"{mechanism: AWS_MSK_IAM}":                    "",
		"{mechanism: AWS_MSK_IAM, username: u}":       "kafka.sasl.username",
		"{mechanism: AWS_MSK_IAM, oauth: {scope: s}}": "kafka.sasl.oauth",
		"{oauth: {clientId: i}}":                      "kafka.sasl.mechanism",
		"{mechanism: PLAIN, username: u, passwordFile: SECRET, oauth: {tokenFile: SECRET}}":                                                       "kafka.sasl.oauth",
		"{mechanism: OAUTHBEARER, oauth: {tokenURL: 'https://login', clientId: i, clientSecretFile: SECRET, extensions: [logicalCluster=lkc-1]}}": "",
		"{mechanism: OAUTHBEARER, oauth: {tokenFile: SECRET}}":                                                                                    "",
		"{mechanism: OAUTHBEARER, oauth: {tokenFile: /none}}":                                                                                     "kafka.sasl.oauth.tokenFile",
		"{mechanism: OAUTHBEARER, oauth: {clientId: i}}":                                                                                          "kafka.sasl.oauth.clientSecretFile kafka.sasl.oauth.tokenURL",
		"{mechanism: OAUTHBEARER, oauth: {tokenFile: SECRET, tokenURL: 'https://login'}}":                                                         "kafka.sasl.oauth.tokenFile",
		"{mechanism: OAUTHBEARER, oauth: {tokenFile: SECRET, extensions: [auth=1]}}":                                                              "kafka.sasl.oauth.extensions[0]",
		"{mechanism: OAUTHBEARER, oauth: {tokenFile: SECRET, extensions: [a=b, ab]}}":                                                             "kafka.sasl.oauth.extensions[1]",
		"{mechanism: OAUTHBEARER, oauth: {tokenFile: SECRET, extensions: [\"a=b\\u0001auth=x\"]}}":                                                "kafka.sasl.oauth.extensions[0]",
		"{mechanism: OAUTHBEARER, passwordFile: SECRET, oauth: {tokenFile: SECRET}}":                                                              "kafka.sasl.passwordFile",
		"{mechanism: OAUTHBEARER, oauth: {tokenURL: 'https://u:p@login', clientId: i, clientSecretFile: SECRET}}":                                 "kafka.sasl.oauth.tokenURL",
	} {
		if got := strings.Join(found(t, strings.Replace(usual, "9092]", tls+sasl, 1)), " "); got != want {
			t.Errorf("%s: got problems of %q, want %q", sasl, got, want)
		}
	}
}

func TestProxiesHaveAHostAndNothingBehindIt(t *testing.T) {
	for proxy, want := range map[string]bool{
		"http://proxy:3128": true, "https://u:p@proxy": true, "socks5://127.0.0.1:1080/": true, "proxy:3128": false,
		"ftp://proxy": false, "http://": false, "http://proxy/path": false, "http://proxy:99999": false, "http://u:p@proxy?x": false,
	} {
		got := found(t, strings.Replace(usual, "entity:", "proxy: '"+proxy+"', entity:", 1))
		if (len(got) == 0) != want {
			t.Errorf("%s: got problems of %q, want taken: %t", proxy, got, want)
		}
	}
}

// fill gives every text of a configuration a value, and the secrets secret.
func fill(v reflect.Value, secret string) {
	switch into := v.Addr().Interface().(type) {
	case *Secret:
		*into = NewSecret(secret)
		return
	case *Address:
		*into = NewAddress("http://user:" + secret + "@host/path")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, secret)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), secret)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), secret)
	case reflect.String:
		v.SetString("text")
	}
}

func TestWholeConfigurationShowsNoSecret(t *testing.T) {
	const secret = "hunter2"
	var cfg Config
	fill(reflect.ValueOf(&cfg.Kafka).Elem(), secret)
	fill(reflect.ValueOf(&cfg.SchemaRegistry).Elem(), secret)
	fill(reflect.ValueOf(&cfg.Service).Elem(), secret)
	fill(reflect.ValueOf(&cfg.Admin).Elem(), secret)
	if cfg.Service.APIKey.Reveal() != secret || cfg.Service.Proxy.user() == nil {
		t.Fatal("nothing was filled in")
	}
	hidden := struct{ inner any }{struct{ cfg *Config }{&cfg}} // where fmt may not ask methods
	var out bytes.Buffer
	for _, shown := range []any{cfg, &cfg, hidden, []any{&cfg}, cfg.Service, cfg.SchemaRegistry.URL, &cfg.Service.Proxy} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", shown)
		}
		for _, marshal := range []func(any) ([]byte, error){json.Marshal, func(v any) ([]byte, error) { return yaml.Marshal(v) }} {
			text, err := marshal(shown)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("configuration", "value", shown)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("configuration", "value", shown)
	}
	for _, shape := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), "104 117 110 116"} { // the last: bytes in decimal
		if strings.Contains(out.String(), shape) {
			t.Errorf("%q shows in\n%.2000s", shape, &out)
		}
	}
	if !strings.Contains(out.String(), "http://host/path") {
		t.Error("addresses do not show without their user")
	}
}

// TestSecretsHaveATypeOrAFile keeps the next key of this kind from being text.
func TestSecretsHaveATypeOrAFile(t *testing.T) {
	suspect := regexp.MustCompile(`(?i)(password|secret|token|apikey|credential)`)
	keys := map[string]any{}
	structKeys(reflect.ValueOf(defaults()), "", keys)
	looked := 0
	for path, value := range keys {
		name := path[strings.LastIndex(path, ".")+1:]
		if !suspect.MatchString(name) {
			continue
		}
		looked++
		_, isText := value.(string)
		if isText && !strings.HasSuffix(name, "File") && name != "tokenURL" {
			t.Errorf("%s: is text in the configuration, want a Secret or a file", path)
		}
	}
	if looked < 7 {
		t.Errorf("looked at %d keys only", looked)
	}
}
