package plan

import (
	"fmt"
	"strings"

	"github.com/feedsink/feedsink/router"
)

// maxNotFound is how many paths NotFoundText names of those that it has no proposal for.
const maxNotFound = 10

// NotFoundText says which paths of a mapping no record has, and what to do; "" where all
// were found.
func NotFoundText(missing []router.NotFound) string {
	var texts, others []string
	for _, n := range missing {
		path := fmt.Sprintf("%q (%s)", n.Path, strings.Join(n.At, ", "))
		if n.Hint == "" {
			others = append(others, path)
			continue
		}
		texts = append(texts, fmt.Sprintf("none of %d records has %s; %s", n.Records, path, n.Hint))
	}
	if left := len(others) - maxNotFound; left > 0 {
		others = append(others[:maxNotFound], fmt.Sprintf("%d more", left))
	}
	if len(others) > 0 {
		texts = append(texts, fmt.Sprintf("no record has %s; correct the path, or leave it if records are to come that have it", strings.Join(others, ", ")))
	}
	return strings.Join(texts, " ")
}
