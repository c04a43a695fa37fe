package service

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// IfUnknown adds what follows to an error of a call that may have been applied all the same.
func IfUnknown(err error, what string) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Unknown() {
		return fmt.Errorf("%w; %s", err, what)
	}
	return err
}

// Hint is what a person has to do about an error of the service at the address that the
// setting of this name says; "" where the error says it, or is another one's.
func Hint(err error, setting string) string {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok, strings.Contains(err.Error(), setting):
		return ""
	case e.Status() == 0:
		return fmt.Sprintf("check %s, service.tls and service.proxy", setting)
	case e.Kind() == Unauthorized && e.Status() == http.StatusUnauthorized:
		return "correct service.apiKeyFile or service.apiKey"
	case e.Kind() == Throttled, e.Overload():
		return "it has too much to do: try again later"
	case e.Status() >= http.StatusInternalServerError:
		return fmt.Sprintf("try again later, and check %s if it stays so", setting)
	}
	return "check " + setting
}
