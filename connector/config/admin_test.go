package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

func TestAdminServersProtectionIsLookedAtAtStart(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "mine")
	pair(t, dir, "other")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		"tls: {certFile: ${DIR}/mine.pem, keyFile: ${DIR}/mine.key}":  "",
		"tokenFile: ${DIR}/token, protectReads: true":                 "",
		"tls: {certFile: ${DIR}/mine.pem, keyFile: ${DIR}/other.key}": "admin.tls.certFile",
		"tls: {certFile: ${DIR}/mine.pem}":                            "admin.tls.keyFile",
		"tls: {keyFile: ${DIR}/mine.key}":                             "admin.tls.certFile",
		"tokenFile: ${DIR}/none":                                      "admin.tokenFile",
		"protectReads: true":                                          "admin.protectReads",
		"hosts: [feedsink, feedsink.crm.svc, a_b.example.com.]":       "",
		"hosts: [feedsink, 'feedsink:8080']":                          "admin.hosts[1]",
		"hosts: ['http://feedsink']":                                  "admin.hosts[0]",
		"hosts: ['*.example.com']":                                    "admin.hosts[0]",
		"hosts: ['']":                                                 "admin.hosts[0]",

		"tls: {certFile: ${DIR}/mine.pem, keyFile: ${DIR}/mine.key}, webhook: {secretFile: ${DIR}/token, members: 'feedsink-members:8080'}": "",
	} {
		file := base + "admin: {" + strings.ReplaceAll(keys, "${DIR}", dir) + "}\n"
		if want == "" {
			cfg := parse(t, file)
			if token, err := config.SecretFile(cfg.Admin.TokenFile)(); err != nil || cfg.Admin.TokenFile != "" && token.Reveal() != "t" {
				t.Errorf("%s: token: got %q, %v, want the file's", keys, token.Reveal(), err)
			}
			continue
		}
		if got := problems(t, file); len(got) != 1 || got[0].Path != want {
			t.Errorf("%s: got %+v, want one problem of %s", keys, got, want)
		}
	}
}
