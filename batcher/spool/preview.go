package spool

import (
	"bytes"
	"maps"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// Preview folds the writes of a mapping as a file would, in memory and for no file
// to send. Its memory follows the number of keys. It is used by one goroutine.
type Preview struct {
	rows  *Rows
	fold  *fold
	entry []byte
}

// PreviewFile is the file of one op, as it would be before compression.
type PreviewFile struct {
	Op    schemas.Op
	Rows  int64
	Bytes int64
	Lines []string // the first, the header before them; without line breaks at their ends
}

// NewPreview prepares for the writes of a mapping.
func NewPreview(rows *Rows) *Preview { return &Preview{rows: rows, fold: newFold(rows)} }

// Add takes a write. A *schemas.ValueError means that no row can say it.
func (p *Preview) Add(w *schemas.Write) error {
	entry, err := p.rows.AppendEntry(p.entry[:0], w)
	if err != nil {
		return err
	}
	p.entry = entry
	p.fold.add(entry, false, several)
	return nil
}

// Files are the files that the writes come to, in the order of their loading, each
// with its first lines.
func (p *Preview) Files(lines int) []PreviewFile {
	byRank := map[int]*PreviewFile{}
	var line []byte
	_ = p.fold.each(func(rank int, entry []byte, _ int64) error { // ours returns no error
		f := byRank[rank]
		if f == nil {
			line = p.rows.appendHeader(line[:0], rankOp(uint16(rank)))
			f = &PreviewFile{Op: rankOp(uint16(rank)), Bytes: int64(len(line)), Lines: []string{text(line)}}
			byRank[rank] = f
		}
		line = p.rows.appendLine(line[:0], entry)
		f.Rows++
		f.Bytes += int64(len(line))
		if len(f.Lines) <= lines {
			f.Lines = append(f.Lines, text(line))
		}
		return nil
	})
	files := make([]PreviewFile, 0, len(byRank))
	for _, rank := range slices.Sorted(maps.Keys(byRank)) {
		files = append(files, *byRank[rank])
	}
	return files
}

func text(line []byte) string { return string(bytes.TrimRight(line, "\n")) }
