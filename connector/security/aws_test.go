package security

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// alone has AWS look nowhere but where the test says.
func alone(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func gotten(t *testing.T, a *AWS) string {
	t.Helper()
	access, secret, session, err := a.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return access + " " + secret + " " + session
}

func TestKeysOfTheEnvironmentComeFirst(t *testing.T) {
	alone(t, map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t",
		"AWS_SHARED_CREDENTIALS_FILE": write(t, "credentials", "[default]\naws_access_key_id=x\naws_secret_access_key=y\n"),
	})
	if got := gotten(t, NewAWS()); got != "AKIA s t" {
		t.Errorf("got %q, want the environment's", got)
	}
}

func TestSharedFileIsReadAgain(t *testing.T) {
	file := write(t, "credentials", "")
	alone(t, map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "feeds"})
	a := NewAWS()
	for _, secret := range []string{"one", "two=="} {
		text := "[default]\naws_access_key_id = no\n\n[feeds]\n# a comment = x\naws_access_key_id = AKIA\r\naws_secret_access_key=" + secret + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, want := gotten(t, a), "AKIA "+secret+" "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

const assumedAnswer = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`

const agentAnswer = `{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t","Expiration":"%s"}`

func TestRoleIsAssumedWithTheTokenOfNowAndInTime(t *testing.T) {
	token := write(t, "token", "jwt-1\n")
	alone(t, map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:aws:iam::1:role/feedsink", "AWS_REGION": "eu-west-3"})
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		a := NewAWS()
		a.http.Transport = local{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Host+" "+r.FormValue("Action")+" "+r.FormValue("RoleArn")+" "+r.FormValue("WebIdentityToken"))
			_, _ = fmt.Fprintf(w, assumedAnswer, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		})}
		for _, after := range []time.Duration{0, 47 * time.Minute, 2 * time.Minute} {
			time.Sleep(after)
			if err := os.WriteFile(token, fmt.Appendf(nil, "jwt-%d", len(asked)+1), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := gotten(t, a); got != "ASIA s t" {
				t.Errorf("got %q, want the role's", got)
			}
		}
		const question = "sts.eu-west-3.amazonaws.com AssumeRoleWithWebIdentity arn:aws:iam::1:role/feedsink jwt-"
		if got, want := strings.Join(asked, "; "), question+"1; "+question+"2"; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
}

func TestAgentIsAskedWithItsProof(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "proof" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, agentAnswer, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer server.Close()
	alone(t, map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": write(t, "proof", "proof\n"),
	})
	if got := gotten(t, NewAWS()); got != "ASIA s t" {
		t.Errorf("got %q, want the agent's", got)
	}
}

func TestAWSErrorsSayWhatIsMissingAndNoSecret(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<Error><Code>AccessDenied</Code><Message>%s</Message></Error>", r.FormValue("WebIdentityToken"))
	}))
	defer server.Close()
	identity := map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": write(t, "token", clientSecret), "AWS_ROLE_ARN": "arn:role"}
	for name, c := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"nothing":   {nil, "none found"},
		"no region": {identity, "AWS_REGION"},
		"a region that is a host": {map[string]string{
			"AWS_WEB_IDENTITY_TOKEN_FILE": identity["AWS_WEB_IDENTITY_TOKEN_FILE"], "AWS_ROLE_ARN": "arn:role", "AWS_REGION": "evil.example/",
		}, "AWS_REGION"},
		"a refusal": {map[string]string{
			"AWS_WEB_IDENTITY_TOKEN_FILE": identity["AWS_WEB_IDENTITY_TOKEN_FILE"], "AWS_ROLE_ARN": "arn:role", "AWS_ENDPOINT_URL_STS": server.URL,
		}, "assume role arn:role: 403 Forbidden: AccessDenied"},
		"a profile that is not there": {map[string]string{
			"AWS_SHARED_CREDENTIALS_FILE": write(t, "credentials", "[other]\naws_secret_access_key="+clientSecret),
		}, `there is no profile "default"`},
		"a profile with half": {map[string]string{
			"AWS_SHARED_CREDENTIALS_FILE": write(t, "credentials", "[default]\naws_secret_access_key="+clientSecret),
		}, "lacks aws_access_key_id"},
		"an agent far away": {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/keys"}, "must be https"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, c.variables)
			_, _, _, err := NewAWS().Get(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			} else if strings.Contains(err.Error(), clientSecret) {
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
}

func FuzzAnswersOfAWS(f *testing.F) {
	f.Add(fmt.Sprintf(assumedAnswer, "2030-01-01T00:00:00Z"))
	f.Add(fmt.Sprintf(agentAnswer, "2030-01-01T00:00:00Z"))
	f.Add("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
	f.Add("<a><a><a>")
	f.Fuzz(func(t *testing.T, text string) {
		for name, read := range map[string]func([]byte) (keys, error){"assumed": assumed, "given": given} {
			if k, err := read([]byte(text)); err == nil && (k.access == "" || k.secret == "" || k.session == "" || k.ends.IsZero()) {
				t.Errorf("%s: got %+v without an error", name, k)
			}
		}
		if k, ok := section(text, "default"); !ok && k != (keys{}) {
			t.Errorf("section: got %+v of a section that is not there", k)
		}
	})
}
