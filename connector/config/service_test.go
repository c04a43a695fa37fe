package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func loadService(t *testing.T, text string) (*Service, error) {
	t.Helper()
	return File{"feedsink.yaml", []byte(text)}.Service(func(name string) (string, bool) { return "the-key", name == "KEY" })
}

func TestServiceIsReadAlone(t *testing.T) {
	for name, rest := range map[string]string{
		"nothing else": "", "a broken rest": "kafka: {brokers: [nowhere]}\nmappings: 7\nunknown: key\n",
	} {
		s, err := loadService(t, rest+"service: {baseURL: 'https://a', authURL: 'https://b', entity: acme, apiKey: \"${KEY}\"}\n")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.BaseURL != "https://a" || s.APIKey.Reveal() != "the-key" || s.Timeout != 30*time.Second {
			t.Errorf("%s: got %+v, want the block with its defaults", name, s)
		}
	}
}

func TestServiceThatCannotWorkNamesItsLines(t *testing.T) {
	for text, want := range map[string]string{
		"service:\n  baseURL: nowhere\n": ":2:12: service.baseURL",
		"kafka: {}\n":                    "service.entity: is required",
		"- service\n":                    "service.entity: is required",
		"service: 7\n":                   ":1:10: service: must be a block of keys",
	} {
		_, err := loadService(t, text)
		if _, ok := errors.AsType[*Problems](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want problems with %q", text, err, want)
		}
	}
}
