package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryWordOfTheSchemaIsTaken(t *testing.T) {
	const file = `kafka:
  brokers: [localhost:9092]
  startAt: earliest
  sasl: {mechanism: PLAIN, username: u, passwordFile: PASSWORD}
schemaRegistry: {url: "http://localhost"}
service: {baseURL: "http://localhost", authURL: "http://localhost", entity: acme, apiKey: key}
log: {format: text, level: info}
mappings:
  - name: customers
    topics: [crm.customers]
    format: json
    envelope: none
    kafkaKey: text
    profileTable: customers
    key: customerNumber
    fields: [{from: id, to: customerNumber}, {from: a, to: b, as: string}, {from: c, to: d, as: list, of: email, absent: omit, null: omit}]
    routes: [{when: a == 1, lane: immediate}, {lane: immediate}]
    imports:
      upsert: {etl: "1", mode: CREATE_OR_UPDATE}
      patch: {etl: "2", mode: UPDATE_ONLY, ignoresEmpty: true}
      merge: {etl: "5", mode: CREATE_OR_UPDATE, ignoresEmpty: true}
      create: {etl: "3", mode: CREATE_ONLY}
      delete: {etl: "4", mode: DELETE}
      columns: [customerNumber, b]
`
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	document := schemaDocument(t)
	found := map[string]map[string]any{}
	schemaKeys(document, document, "", found)
	words := 0
	for path, schema := range found {
		alternatives, _ := resolved(document, schema)["anyOf"].([]any)
		if alternatives == nil {
			continue
		}
		enum, _ := alternatives[0].(map[string]any)["enum"].([]any)
		for _, word := range enum {
			if word == "" {
				continue // nothing: the default
			}
			words++
			data := strings.ReplaceAll(withWord(t, file, path, word.(string)), "PASSWORD", password)
			switch word { // these take other credentials than the file has
			case "OAUTHBEARER":
				data = strings.Replace(data, "username: u, passwordFile: "+password, "oauth: {tokenFile: "+password+"}", 1)
			case "AWS_MSK_IAM":
				data = strings.Replace(data, ", username: u, passwordFile: "+password, "}\n  tls: {enabled: true", 1)
			}
			if _, err := Parse(path, []byte(data), os.LookupEnv); err != nil {
				t.Errorf("%s: %v: %v", path, word, err)
			}
		}
	}
	if words < 25 {
		t.Errorf("looked at %d words only", words)
	}
}

// resolved is a schema, or the definition that it refers to.
func resolved(document, schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		return document["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	return schema
}

// withWord is the file with another word at the schema's path.
func withWord(t *testing.T, file, path, word string) string {
	t.Helper()
	keys := strings.Split(path, ".")
	key := keys[len(keys)-1]
	if key == "mode" {
		op := keys[len(keys)-2]
		key = op + `: {etl: "` + map[string]string{"upsert": "1", "patch": "2", "create": "3", "delete": "4", "merge": "5"}[op] + `", mode`
	}
	if path == "log.format" { // mappings have one of that name
		key = "log: {format"
	} else if key == "format" {
		key = "    format"
	}
	at := regexp.MustCompile(regexp.QuoteMeta(key) + ": [^,}\n]*")
	place := at.FindStringIndex(file)
	if place == nil {
		t.Fatalf("%s is not in the file", path)
	}
	return file[:place[0]] + key + ": " + word + file[place[1]:]
}
