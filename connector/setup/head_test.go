package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

// What a sample was read by stands in the configuration as it was given, and
// nothing that is secret does.
func TestTheWayInIsWrittenAsItWasGiven(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "it's ${secret}")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, sasl := range map[string]config.SASL{
		"AWS": {Mechanism: "AWS_MSK_IAM"},
		"a token server": {Mechanism: "OAUTHBEARER", OAuth: config.OAuth{
			TokenURL: "https://login.example.com/token", ClientID: "feedsink", ClientSecretFile: secret, Scope: "kafka read",
			Extensions: []string{"logicalCluster=lkc-1", "identityPoolId=a: {b}"},
		}},
		"a token's file":     {Mechanism: "OAUTHBEARER", OAuth: config.OAuth{TokenFile: secret}},
		"a password":         {Mechanism: "SCRAM-SHA-512", Username: "me", PasswordFile: secret},
		"without protection": {Mechanism: "PLAIN", Username: "me", PasswordFile: secret, AllowPlaintext: true},
	} {
		at := place
		at.Kafka.SASL, at.Kafka.TLS.Enabled = sasl, !sasl.AllowPlaintext
		got := accepted(t, guessed(t, at, `A1 {"id":"A1"}`, `A2 {"id":"A2"}`)).Kafka
		if !reflect.DeepEqual(got.SASL, sasl) || got.TLS != at.Kafka.TLS {
			t.Errorf("%s: got %+v and %+v, want %+v", name, got.SASL, got.TLS, sasl)
		}
	}
}

func TestMappingOfATopicThatBeginsWithADotIsAccepted(t *testing.T) {
	for topic, want := range map[string]string{".orders": "-orders", "...": "-..", "shop.orders": "shop.orders"} {
		if got := mappingName(topic); got != want {
			t.Errorf("%s: got %q, want %q", topic, got, want)
		}
	}
}

func TestEditorsFindTheSchema(t *testing.T) {
	text, err := os.ReadFile("../../schemas/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal(text, &schema); err != nil || schema.ID != SchemaAddress {
		t.Errorf("got %q, want the schema's $id %q, %v", SchemaAddress, schema.ID, err)
	}
}
