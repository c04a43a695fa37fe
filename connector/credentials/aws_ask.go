package credentials

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

// assume exchanges a web identity token for keys of a role, at the Security
// Token Service of AWS_REGION. The request is not signed: the token is the proof.
func (a *AWS) assume(ctx context.Context, tokenFile, role string) (keys, error) {
	token, err := contents(tokenFile)
	if err != nil {
		return keys{}, err
	}
	endpoint := os.Getenv("AWS_ENDPOINT_URL_STS")
	if endpoint == "" {
		region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
		if !regionName.MatchString(region) {
			return keys{}, errors.New("AWS_REGION: must name the region whose token service is asked")
		}
		endpoint = "https://sts." + region + ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			endpoint += ".cn"
		}
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"},
		"RoleArn": {role}, "RoleSessionName": {cmp.Or(os.Getenv("AWS_ROLE_SESSION_NAME"), "feedsink")},
		"WebIdentityToken": {strings.TrimSpace(token)},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return keys{}, errors.New("AWS_ENDPOINT_URL_STS: not an address")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := a.send(r)
	if err != nil {
		return keys{}, fmt.Errorf("assume role %s: %w", role, err)
	}
	return assumed(answer)
}

var regionName = regexp.MustCompile(`^[a-z0-9-]+$`)

// assumed reads the answer to AssumeRoleWithWebIdentity.
func assumed(answer []byte) (keys, error) {
	var said struct {
		Keys struct {
			AccessKeyID     string    `xml:"AccessKeyId"`
			SecretAccessKey string    `xml:"SecretAccessKey"`
			SessionToken    string    `xml:"SessionToken"`
			Expiration      time.Time `xml:"Expiration"`
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if xml.Unmarshal(answer, &said) != nil { // its error may quote the answer
		return keys{}, errAnswer
	}
	return checked(keys{said.Keys.AccessKeyID, said.Keys.SecretAccessKey, said.Keys.SessionToken, said.Keys.Expiration})
}

// agent is the address of an agent beside the process that gives keys, "" for
// none.
func agent() string {
	if path := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		return "http://169.254.170.2" + path // what ECS promises
	}
	return os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
}

// ask gets keys from an agent. Over plain HTTP it is asked only at the addresses
// that ECS and EKS use, which lead nowhere else.
func (a *AWS) ask(ctx context.Context, agent string) (keys, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, agent, nil)
	if err != nil {
		return keys{}, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI: not an address")
	}
	if r.URL.Scheme != "https" && !nearby(r.URL.Hostname()) {
		return keys{}, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI: must be https, or an address of this machine")
	}
	proof := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		if proof, err = contents(file); err != nil {
			return keys{}, err
		}
	}
	if proof = strings.TrimSpace(proof); proof != "" {
		r.Header.Set("Authorization", proof)
	}
	answer, err := a.send(r)
	if err != nil {
		return keys{}, fmt.Errorf("ask the agent at %s: %w", r.URL.Host, err)
	}
	return given(answer)
}

func nearby(host string) bool {
	if host == "localhost" || host == "169.254.170.2" || host == "169.254.170.23" || host == "fd00:ec2::23" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// given reads the answer of an agent.
func given(answer []byte) (keys, error) {
	var said struct {
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		Token           string
		Expiration      time.Time
	}
	if json.Unmarshal(answer, &said) != nil { // its error may quote the answer
		return keys{}, errAnswer
	}
	return checked(keys{said.AccessKeyID, said.SecretAccessKey, said.Token, said.Expiration})
}

var errAnswer = errors.New("the answer holds no keys")

func checked(k keys) (keys, error) {
	if k.access == "" || k.secret == "" || k.session == "" || k.ends.IsZero() {
		return keys{}, errAnswer
	}
	return k, nil
}

// send returns the body of a 200. The body of anything else may repeat what was
// sent and is left out, but for the code that AWS gives.
func (a *AWS) send(r *http.Request) ([]byte, error) {
	response, err := a.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxText))
	switch {
	case response.StatusCode != http.StatusOK:
		return nil, errors.New(response.Status + codeIn(answer))
	case err != nil:
		return nil, err
	}
	return answer, nil
}

var code = regexp.MustCompile(`<Code>([A-Za-z]{1,64})</Code>`)

func codeIn(answer []byte) string {
	if found := code.FindSubmatch(answer); found != nil {
		return ": " + string(found[1])
	}
	return ""
}
