package kafka

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestVariableFollowsTheImagesRule(t *testing.T) {
	for property, want := range map[string]string{
		"node.id":           "KAFKA_NODE_ID",
		"a_b.c":             "KAFKA_A__B_C",
		"some-name.with.it": "KAFKA_SOME___NAME_WITH_IT",
	} {
		if got := variable(property); got != want {
			t.Errorf("variable(%q) = %q, want %q", property, got, want)
		}
	}
}

func TestConfigWinsOverTheHarness(t *testing.T) {
	env := environment(listeners([]string{"19092"}, nil), map[string]string{"auto.create.topics.enable": "true", "message.max.bytes": "7"})
	if got := env["KAFKA_AUTO_CREATE_TOPICS_ENABLE"]; got != "true" {
		t.Errorf("auto.create.topics.enable = %q, want true", got)
	}
	if got := env["KAFKA_MESSAGE_MAX_BYTES"]; got != "7" {
		t.Errorf("message.max.bytes = %q, want 7", got)
	}
	if got, want := env["KAFKA_ADVERTISED_LISTENERS"], "PLAINTEXT://127.0.0.1:19092"; got != want {
		t.Errorf("advertised.listeners = %q, want %q", got, want)
	}
}

func TestEachFrontHasAListenerThatAdvertisesIt(t *testing.T) {
	got := listeners([]string{"19092", "19093"}, plain([]string{"127.0.0.1:7001"}))
	for property, want := range map[string]string{
		"listeners":                      "PLAINTEXT://:19092,CONTROLLER://localhost:9093,FRONT1://:19093",
		"advertised.listeners":           "PLAINTEXT://127.0.0.1:19092,FRONT1://127.0.0.1:7001",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FRONT1:PLAINTEXT",
	} {
		if got[property] != want {
			t.Errorf("%s = %q, want %q", property, got[property], want)
		}
	}
}

// Both images are to be the same Kafka, or a test may pass on one and fail on the other.
func TestDefaultImageIsTheVersionWeBuild(t *testing.T) {
	pom, err := os.ReadFile("image/pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`<kafka\.version>([^<]+)</kafka\.version>`).FindSubmatch(pom)
	if found == nil {
		t.Fatal("image/pom.xml names no kafka.version")
	}
	_, want, _ := strings.Cut(DefaultImage, ":")
	if got := string(found[1]); got != want {
		t.Errorf("image/pom.xml builds Kafka %s, DefaultImage is %s", got, want)
	}
}

func TestDefaultRegistryImageIsTheVersionWeBuild(t *testing.T) {
	script, err := os.ReadFile("registry/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^version=(\S+)`).FindSubmatch(script)
	if found == nil {
		t.Fatal("registry/build.sh names no version")
	}
	_, want, _ := strings.Cut(DefaultRegistryImage, ":")
	if got := string(found[1]); got != want {
		t.Errorf("registry/build.sh builds %s, DefaultRegistryImage is %s", got, want)
	}
}
