package router

import (
	"fmt"
	"strings"
)

// suggest is the hint `did you mean "x"?` for the candidate nearest to word,
// else the list of candidates.
func suggest(word string, candidates ...string) string {
	if hint := similar(word, candidates...); hint != "" {
		return hint
	}
	return "one of " + strings.Join(candidates, ", ")
}

// similar is the hint for the candidate nearest to word, "" where none is near.
func similar(word string, candidates ...string) string {
	best, distance := "", 3
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < distance {
			best, distance = c, d
		}
	}
	if best != "" && distance < len(best) {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

// editDistance counts the bytes to insert, delete or replace between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
