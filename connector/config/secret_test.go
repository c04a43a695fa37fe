package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/feedsink/feedsink/connector/config"
)

func TestSecretShowsNowhere(t *testing.T) {
	const text = "hunter2"
	secret := config.NewSecret(text)
	holders := []any{
		secret, &secret,
		[]config.Secret{secret},
		map[string]any{"key": secret},
		config.Service{APIKey: secret},
		&config.Config{Service: config.Service{APIKey: secret}},
		struct {
			inner struct{ secret config.Secret }
		}{struct{ secret config.Secret }{secret}},
	}
	var out bytes.Buffer
	for _, h := range holders {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", h)
		}
		encoded, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(encoded)
		if encoded, err = yaml.Marshal(h); err != nil {
			t.Fatal(err)
		}
		out.Write(encoded)
		slog.New(slog.NewTextHandler(&out, nil)).Info("configuration", "value", h)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("configuration", "value", h)
	}
	fmt.Fprint(&out, secret.String())
	for _, shape := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text), "104 117 110 116"} { // the last: bytes in decimal
		if strings.Contains(out.String(), shape) {
			t.Errorf("%q shows in\n%s", shape, &out)
		}
	}
	if got := secret.Reveal(); got != text {
		t.Errorf("Reveal: got %q, want %q", got, text)
	}
}

func TestSecretFileFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	read := config.SecretFile(path)
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := read(); err == nil {
		t.Error("missing file: got no error")
	}
	for _, c := range []struct{ content, want string }{
		{"one\n", "one"},
		{"two\r\n", "two"}, // same length in the same tick of the file's clock
		{" six ", "six"},
		{"\ufeffsev\r\n", "sev"}, // as Windows' editors write
	} {
		write(c.content)
		got, err := read()
		if err != nil || got.Reveal() != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.content, got.Reveal(), err, c.want)
		}
	}
	for _, content := range []string{"", " \n", "a\nb", strings.Repeat("k", 70_000)} {
		write(content)
		if got, err := read(); err == nil || strings.Contains(err.Error(), "kkk") {
			t.Errorf("%.5q: got %q, %v, want an error", content, got.Reveal(), err)
		}
	}
}

// Kubernetes replaces a mounted secret by moving a symbolic link.
func TestSecretFileFollowsAMovedLink(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, version), []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "key")
	read := config.SecretFile(link)
	for _, version := range []string{"one", "two"} {
		next := link + ".next"
		if err := os.Symlink(version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, link); err != nil {
			t.Fatal(err)
		}
		if got, err := read(); err != nil || got.Reveal() != version {
			t.Errorf("got %q, %v, want %q", got.Reveal(), err, version)
		}
	}
}

func TestSecretsOfTheFileAreReadWhenAsked(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"api", "kafka", "hook"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("from "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := spoiled("apiKey: key", "apiKeyFile: ${DIR}/api") + "admin:\n  webhook:\n    secretFile: ${DIR}/hook\n"
	file = strings.Replace(file, "kafka:\n", "kafka:\n  sasl:\n    mechanism: PLAIN\n    username: u\n    passwordFile: ${DIR}/kafka\n", 1)
	cfg := parse(t, file, "DIR", dir)
	for want, read := range map[string]func() (config.Secret, error){
		"from api": cfg.Service.Key(), "from kafka": config.SecretFile(cfg.Kafka.SASL.PasswordFile), "from hook": config.SecretFile(cfg.Admin.Webhook.SecretFile),
	} {
		if got, err := read(); err != nil || got.Reveal() != want {
			t.Errorf("got %q, %v, want %q", got.Reveal(), err, want)
		}
	}
	none := parse(t, base)
	if got, err := config.SecretFile(none.Kafka.SASL.PasswordFile)(); err != nil || !got.IsZero() {
		t.Errorf("no password: got %q, %v", got.Reveal(), err)
	}
	if got, err := none.Service.Key()(); err != nil || got.Reveal() != "key" {
		t.Errorf("apiKey: got %q, %v, want key", got.Reveal(), err)
	}
}

func TestProblemsShowNoSecret(t *testing.T) {
	const secret = "c0ffee-c0ffee"
	for name, file := range map[string]string{
		"key in place of its file":          spoiled("apiKey: key", "apiKeyFile: "+secret),
		"private key in place of its file":  spoiled("brokers", "tls: {enabled: true, caFile: \"/\\n"+secret+"\"}\n  brokers"),
		"misspelt key":                      spoiled("apiKey: key", "apikey: "+secret),
		"key as a list":                     spoiled("apiKey: key", "apiKey: ["+secret+"]"),
		"key with an open variable":         spoiled("apiKey: key", "apiKey: "+secret+"${"),
		"both":                              spoiled("apiKey: key", "apiKey: "+secret+"\n  apiKeyFile: /none"),
		"two lines":                         spoiled("apiKey: key", "apiKey: \""+secret+"\\n"+secret+"\""),
		"syntax error beside it":            spoiled("apiKey: key", "apiKey: "+secret+": x"),
		"tag":                               spoiled("apiKey: key", "apiKey: !"+secret),
		"alias":                             spoiled("apiKey: key", "apiKey: *"+secret),
		"block":                             spoiled("apiKey: key", "apiKey: |"+secret),
		"folded block":                      spoiled("apiKey: key", "apiKey: >"+secret),
		"unclosed quotation":                spoiled("apiKey: key", "apiKey: \""+secret),
		"variable of another type":          base + "    imports: {reserve: \"${SECRET}\"}\n",
		"variable as an address":            spoiled("http://localhost:8090", "${SECRET}"),
		"password in an address":            spoiled("http://localhost:8090", "http://user:"+secret+"@host"),
		"password in a bad address":         spoiled("http://localhost:8090", "user:"+secret+"@host"),
		"password in the registry":          base + "schemaRegistry: {url: \"ftp://user:" + secret + "@host\"}\n",
		"registry without its host":         base + "schemaRegistry: {url: \"https://u:" + secret + "\"}\n",
		"service without its host":          spoiled("http://localhost:8090", "http://u:"+secret),
		"registry as a variable":            base + "schemaRegistry: {url: \"${SECRET}\"}\n",
		"variable within the registry":      base + "schemaRegistry: {url: \"https://u:a${" + secret + "}b@host\"}\n",
		"variable within a proxy":           spoiled("apiKey: key", "apiKey: key\n  proxy: \"http://u:a${"+secret+"}b@host\""),
		"variable within a service":         spoiled("http://localhost:8090", "\"http://u:a${"+secret+"}b@host\""),
		"variable in place of a file":       spoiled("apiKey: key", "apiKeyFile: \"a${"+secret+"}b\""),
		"key that begins as a path":         spoiled("apiKey: key", "apiKeyFile: /"+secret),
		"key that begins as a file here":    spoiled("apiKey: key", "apiKeyFile: ."+secret),
		"key with slashes":                  spoiled("apiKey: key", "apiKeyFile: /"+secret+"/"+secret),
		"key too long for a path":           spoiled("apiKey: key", "apiKeyFile: /"+strings.Repeat(secret, 50)),
		"private key that begins as one":    spoiled("brokers", "tls: {enabled: true, caFile: /"+secret+"}\n  brokers"),
		"query of a token address":          spoiled("brokers", "sasl: {mechanism: OAUTHBEARER, oauth: {clientId: i, clientSecretFile: /none, tokenURL: 'https://h/?secret="+secret+"'}}\n  brokers"),
		"fragment of a collector":           base + "tracing: {endpoint: 'https://h/#" + secret + "'}\n",
		"login in a broker":                 spoiled("localhost:9092", "u:"+secret+"@localhost:9092"),
		"login in a broker that is no list": spoiled("[localhost:9092]", "u:"+secret+"@localhost:9092"),
		"variable as a name":                spoiled("name: customers", "name: ${SECRET} ${SECRET}"),
		"variable as a topic":               spoiled("[crm.customers]", "[\"${SECRET}\", \"${SECRET}\"]"),
		"variable as a format":              base + "    format: ${SECRET}\n",
		"variable within a condition":       strings.Replace(base, "[{lane", "[{when: 'a == ${SECRET} ${SECRET}', lane: skip}, {lane", 1),
		"variable as a condition":           base + "    when: ${WORDS}\n",
		"variable as a path":                base + "    fields: [{from: \"a[${SECRET}\", to: customerNumber}]\n",
		"variable in quotes as a path":      base + "    fields: [{from: \"a[${QUOTED}\", to: customerNumber}]\n",
		"variable as a constant":            base + "    fields: [{from: id, to: customerNumber}, {value: \"${SECRET}\", to: age, as: integer}]\n",
		"variable as a key":                 spoiled("key: customerNumber", "fields: [{from: id, to: a}]\n    key: ${SECRET}"),
		"variable in quotes as a key":       spoiled("key: customerNumber", "fields: [{from: id, to: a}]\n    key: ${QUOTED}"),
		"variable as a first wait":          base + "retry: {initial: \"${LONG}\"}\n",
		"variable as a first limit":         spoiled("apiKey: key", "apiKey: key\n  concurrency: {start: \"${NUMBER}\"}"),
		"variable as a time":                spoiled("immediate", "batch") + "    imports: {upsert: {etl: '1', mode: CREATE_UPDATE}, columns: [customerNumber], roll: {at: [\"${SECRET}\"]}}\n",
	} {
		variables := environment("SECRET", secret, "QUOTED", `"`+secret+`"`, "WORDS", "a "+secret, "LONG", "4711h", "NUMBER", "4711")
		_, err := config.Parse("feedsink.yaml", []byte(file), variables)
		if err == nil {
			t.Errorf("%s: got no problem", name)
		} else if strings.Contains(err.Error(), secret[:6]) || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestProblemsShowWhatIsNoSecret(t *testing.T) {
	dir := t.TempDir()
	for want, file := range map[string]string{
		`service.apiKeyFile: read secret: stat ` + dir + `/none: no such file or directory`: spoiled("apiKey: key", "apiKeyFile: ${DIR}/none"),
		`names no readable file: no such file or directory, below ` + dir + `;`:             spoiled("apiKey: key", "apiKeyFile: ${DIR}/none/key"),
		`must be an absolute http or https address, is "localhost:8090"`:                    spoiled("http://localhost:8090", "localhost:8090"),
		`mappings[0].name: "${NAME}-${DIR}": 1 to 100`:                                      spoiled("name: customers", "name: ${NAME}-${DIR}"),
		`mappings[0].name: "é ${OTHER:-x}": 1 to 100`:                                       spoiled("name: customers", "name: é $${OTHER:-x}"),
		`did you mean "json"?`: base + "    format: ${FORMAT:-jsn}\n",
	} {
		_, err := config.Parse("feedsink.yaml", []byte(file), environment("DIR", dir, "NAME", "a name"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSamplesNeedNoSecrets(t *testing.T) {
	with := func(from, to string) config.File {
		text := strings.Replace(base, from, to, 1)
		if text == base {
			t.Fatalf("the base has no %q", from)
		}
		return config.File{Name: "feedsink.yaml", Data: []byte(text)}
	}
	for _, key := range []string{"apiKey: ${KEY}", "apiKeyFile: /nowhere/key"} {
		file := with("apiKey: key", key)
		if _, err := file.ForSamples(environment()); err != nil {
			t.Errorf("%s: got %v, want none", key, err)
		}
		if _, err := file.Unfinished(environment()); err == nil {
			t.Errorf("%s: got no error of a command that needs the key", key)
		}
	}
	if _, err := with("apiKey: key", "apiKeyFile: 4711").ForSamples(environment()); err == nil || !strings.Contains(err.Error(), "not the content") {
		t.Errorf("a key instead of its file: got %v, want that a path belongs there", err)
	}
	if _, err := with("entity: acme", "entity: ${ENTITY}").ForSamples(environment()); err == nil || !strings.Contains(err.Error(), "ENTITY is not set") {
		t.Errorf("a variable that is no secret: got %v, want that it is not set", err)
	}
}
