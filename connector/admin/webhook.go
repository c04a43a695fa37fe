package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net/http"
	"strings"
)

// maxWebhookBody is as much of a webhook call as is read, in bytes. The shape of
// the body is not shown in the service's document; an id is looked for in it.
const maxWebhookBody = 64 << 10

// Executions adds POST /webhooks/executions, which the service calls when an
// execution has ended. The call is answered with 202 if the named header holds
// the secret and with 403 otherwise, or if there is no secret; with 415 if its body
// is compressed or a web form's, and with 413 if that is too long. It is only ever
// a hint to poll: hint gets the execution's id, as id finds it in the body, or ""
// if it names none, and must not believe it. The other members are told as well, unless the address
// of members is empty.
func Executions(header string, secret func() (string, error), id func(body []byte) string, hint func(execution string), members Members) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("POST "+webhookPath, func(w http.ResponseWriter, r *http.Request) {
			want, err := secret()
			if err != nil || want == "" || !same(r.Header.Get(header), want) {
				text(w, http.StatusForbidden, "webhook: the shared secret is missing or wrong, or none is configured (admin.webhook)\n")
				return
			}
			if !readable(r.Header) {
				text(w, http.StatusUnsupportedMediaType, "webhook: the body is compressed or a web form's; JSON is read\n")
				return
			}
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWebhookBody))
			if err != nil {
				text(w, http.StatusRequestEntityTooLarge, "webhook: the body is too long\n")
				return
			}
			execution := id(body)
			hint(execution)
			if members.Address != "" && r.Header.Get(forwarded) == "" {
				members.tell(r.Context(), header, want, execution)
			}
			w.WriteHeader(http.StatusAccepted)
		})
	}
}

// readable reports whether a body may be looked into. The service's document does
// not say how its own is labelled, so only what cannot be meant is refused.
func readable(h http.Header) bool {
	kind, _, _ := strings.Cut(strings.ToLower(h.Get("Content-Type")), ";")
	form := strings.TrimSpace(kind) == "application/x-www-form-urlencoded" || strings.HasPrefix(kind, "multipart/")
	coding := h.Get("Content-Encoding")
	return !form && (coding == "" || strings.EqualFold(coding, "identity"))
}

// same compares in a time that tells nothing, not even a length.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
