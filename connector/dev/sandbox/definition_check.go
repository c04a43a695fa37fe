package sandbox

import (
	"errors"
	"fmt"
	"slices"
)

// unify turns the singular fields of a one-shot definition into the lists of a
// triggered one, and refuses the fields of the other kind.
func (d *definition) unify(oneShot bool) error {
	in := &d.FileTransfer.Input
	if !oneShot {
		if in.File != nil || d.InputFileProperties != nil || d.DataLoading != nil || d.DataTransformation != nil || d.Transformations != nil {
			return errors.New("file, inputFileProperties, dataLoading and its transformations are fields of a one-shot definition")
		}
		return nil
	}
	if in.Files != nil || d.InputFilesProperties != nil || d.DataLoadings != nil || d.Triggering != nil {
		return errors.New("files, inputFilesProperties, dataLoadings and triggering are fields of a triggered definition")
	}
	if d.DataLoading == nil || d.InputFileProperties == nil {
		return errors.New("dataLoading and inputFileProperties are required")
	}
	d.DataLoading.FileCode, d.InputFileProperties.FileCode = "", ""
	d.DataLoadings = []dataLoading{*d.DataLoading}
	d.InputFilesProperties = []fileProperties{*d.InputFileProperties}
	in.Files = []inputFile{{}}
	if in.File != nil {
		in.File.FileCode = ""
		in.Files[0] = *in.File
	}
	for i := range d.DataTransformations {
		d.DataTransformations[i].FileCode = ""
	}
	if d.DataTransformation != nil {
		d.DataTransformations = append(d.DataTransformations, dataTransformation{"", d.DataTransformation.Transformations})
	}
	d.DataTransformations = append(d.DataTransformations, dataTransformation{"", d.Transformations})
	return nil
}

// checkCodes wants every fileCode to be that of one file and of one loading.
func (d *definition) checkCodes() error {
	var codes []string
	for _, f := range d.FileTransfer.Input.Files {
		if slices.Contains(codes, f.FileCode) {
			return fmt.Errorf("files: fileCode %q stands there twice", f.FileCode)
		}
		codes = append(codes, f.FileCode)
	}
	var loaded []string
	for _, l := range d.DataLoadings {
		if !slices.Contains(codes, l.FileCode) {
			return fmt.Errorf("dataLoadings: no file has the fileCode %q", l.FileCode)
		}
		if slices.Contains(loaded, l.FileCode) {
			return fmt.Errorf("dataLoadings: one item per file is expected, %q has two", l.FileCode)
		}
		loaded = append(loaded, l.FileCode)
	}
	if len(loaded) < len(codes) {
		return fmt.Errorf("dataLoadings: one item per file is expected, there are %d for %d files", len(loaded), len(codes))
	}
	for _, p := range d.InputFilesProperties {
		if !slices.Contains(codes, p.FileCode) {
			return fmt.Errorf("inputFilesProperties: no file has the fileCode %q", p.FileCode)
		}
	}
	for _, t := range d.DataTransformations {
		if !slices.Contains(codes, t.FileCode) {
			return fmt.Errorf("dataTransformations: no file has the fileCode %q", t.FileCode)
		}
	}
	return nil
}

// check wants a destination to be of its table's type, and every header of its
// mapping to have a field to go to. A table without its key could not load a row.
func (l dataLoading) check(t *table) error {
	want := "PROFILE_TABLE"
	if t.conf.Custom {
		want = "CUSTOM_TABLE"
	}
	if l.Destination.Type != want {
		return fmt.Errorf("destination %s: its type is %s", t.conf.Name, want)
	}
	headers, attributes := map[string]bool{}, map[string]bool{}
	for _, m := range l.Destination.AttributesMapping {
		if m.Header == "" || m.AttributeName == "" {
			return errors.New("attributesMapping: header and attributeName are required")
		}
		if headers[m.Header] || attributes[m.AttributeName] {
			return fmt.Errorf("attributesMapping: %q to %q: a header and an attribute stand there once", m.Header, m.AttributeName)
		}
		headers[m.Header], attributes[m.AttributeName] = true, true
		if _, ok := t.rule(m.AttributeName); !ok {
			return fmt.Errorf("attributesMapping: the table has no field %q", m.AttributeName)
		}
		if t.technical(m.AttributeName) && l.Parameters.Mode != CreateOnly {
			return fmt.Errorf("attributesMapping: %s: a technical attribute is taken from CREATE_ONLY imports alone", m.AttributeName)
		}
	}
	if !slices.ContainsFunc(t.conf.Keys, func(key string) bool { return attributes[key] }) {
		return fmt.Errorf("attributesMapping: a unique key is required, one of %q", t.conf.Keys)
	}
	return nil
}
