package rowerror

import (
	"bufio"
	"bytes"
	"path"
	"strings"
)

// formatsOf finds which of an import's files the rows of an output file are of: by
// its name, else by the columns of its header. It names at least one.
func (r *reading) formatsOf(name string, in *bufio.Reader) []int {
	all := make([]int, len(r.formats))
	for i := range all {
		all[i] = i
	}
	if len(all) == 1 {
		return all
	}
	if of := r.named(all, name, strings.Contains); len(of) == 1 {
		return of
	}
	first, _ := in.Peek(headLength) // what keeps it from being read shows when it is
	var best []int
	most := 0
	for _, i := range all {
		f := r.formats[i]
		header, err := newReader(bytes.NewReader(first), f).header(f.Key)
		if err != nil || column(header, f.Key) < 0 {
			continue
		}
		switch fits := f.fits(header); {
		case len(best) == 0 || fits > most:
			best, most = []int{i}, fits
		case fits == most:
			best = append(best, i)
		}
	}
	if len(best) == 0 {
		return all
	}
	return best
}

// fits is how well a header goes with the file's columns: how many of them are there, and
// better than any other if all are.
func (f Format) fits(header []string) (columns int) {
	for _, c := range f.Columns {
		if column(header, c) >= 0 {
			columns++
		}
	}
	if columns == len(f.Columns) {
		columns += 1 << 20 // more than any file has
	}
	return columns
}

// toldBy narrows the formats of a row by its columns that are not the import's
// own: one may name the file or the table.
func (r *reading) toldBy(of []int, l layout, cells []string) []int {
	if len(of) == 1 {
		return of
	}
	for _, i := range l.others {
		if i >= len(cells) || cells[i] == "" {
			continue
		}
		if named := r.named(of, cells[i], strings.HasPrefix); len(named) == 1 {
			return named
		}
	}
	return of
}

// named are those of the formats whose file or table a text names; of names that
// begin alike, the longest.
func (r *reading) named(of []int, text string, names func(text, name string) bool) (found []int) {
	text = strings.ToLower(path.Base(strings.ReplaceAll(text, `\`, "/")))
	longest := 0
	for _, i := range of {
		length := 0
		for _, name := range []string{r.formats[i].stem(), r.formats[i].Table} {
			if name != "" && names(text, strings.ToLower(name)) {
				length = max(length, len(name))
			}
		}
		switch {
		case length == 0 || length < longest:
		case length > longest:
			found, longest = []int{i}, length
		default:
			found = append(found, i)
		}
	}
	return found
}
