package service

import (
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
)

// problems collects what is wrong with a definition, each with the place that
// it has on the wire.
type problems []error

func (p *problems) add(place, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", strings.TrimPrefix(place, "."), fmt.Sprintf(format, args...)))
}

// need reports a text that is not there.
func (p *problems) need(place, text string) {
	if text == "" {
		p.add(place, "must not be empty")
	}
}

// unsendable is the error of a call that was not made, for its content. One
// line, as all errors of a Client.
func unsendable(op Op, err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	return &Error{op: op, kind: Rejected, text: text + "; nothing was sent", err: err}
}

// Validate reports everything in the definition that cannot work, at once. That
// the table has the fields is known to the service alone.
func (e TriggeredETL) Validate() error {
	var p problems
	p.need("name", e.Name)
	if len(e.Files) == 0 {
		p.add("fileTransfer.input.files", "must name at least one file")
	}
	codes := map[string]bool{}
	for i, f := range e.Files {
		place := fmt.Sprintf("fileTransfer.input.files[%d]", i)
		p.need(place+".fileCode", f.Code)
		if codes[f.Code] && f.Code != "" {
			p.add(place+".fileCode", "%q is another file's", f.Code)
		}
		codes[f.Code] = true
		if len(e.Files) > 1 || e.RemoteLocationID != "" {
			p.need(place+".fileNamePattern", f.NamePattern)
		}
		p.compression(place+".compressionType", f.Compression)
		f.check(&p, fmt.Sprintf("dataLoadings[%d]", i),
			fmt.Sprintf("inputFilesProperties[%d]", i), fmt.Sprintf("dataTransformations[%d]", i))
	}
	p.recipients(e.ReportRecipients)
	e.Output.check(&p)
	return errors.Join(p...)
}

// Validate reports everything in the definition that cannot work, at once.
func (e OneShotETL) Validate() error {
	var p problems
	if r := e.Remote; r != nil {
		p.need("fileTransfer.input.location.remoteLocationId", r.LocationID)
		p.need("fileTransfer.input.file.fileNamePattern", r.NamePattern)
		p.compression("fileTransfer.input.file.compressionType", r.Compression)
	}
	e.check(&p, "dataLoading", "inputFileProperties", "dataTransformations[0]")
	p.recipients(e.ReportRecipients)
	e.Output.check(&p)
	return errors.Join(p...)
}

// check looks at what a file's three places say of it.
func (l Load) check(p *problems, loading, properties, transforms string) {
	switch l.Destination.Type {
	case ProfileTable, CustomTable:
	default:
		p.add(loading+".destination.type", "must be %s or %s, is %q", ProfileTable, CustomTable, l.Destination.Type)
	}
	p.need(loading+".destination.id", l.Destination.ID)
	if len(l.Destination.Attributes) == 0 {
		p.add(loading+".destination.attributesMapping", "must map at least one header")
	}
	headers := map[string]bool{}
	for i, a := range l.Destination.Attributes {
		place := fmt.Sprintf("%s.destination.attributesMapping[%d]", loading, i)
		p.need(place+".header", a.Header)
		p.need(place+".attributeName", a.Name)
		if headers[a.Header] && a.Header != "" {
			p.add(place+".header", "%q is mapped already", a.Header)
		}
		headers[a.Header] = true
	}
	modes := []Mode{ModeCreateOrUpdate, ModeCreateUpdate, ModeCreateOnly, ModeUpdateOnly, ModeDelete}
	if !slices.Contains(modes, l.Parameters.Mode) {
		p.add(loading+".parameters.mode", "must be one of %v, is %q", modes, l.Parameters.Mode)
	}
	p.need(properties+".csvFormat.separator", l.CSV.Separator)
	for i, t := range l.Transformations {
		place := fmt.Sprintf("%s.transformations[%d]", transforms, i)
		if !headers[t.Header] {
			p.add(place+".header", "%q is not mapped", t.Header)
		}
		p.need(place+".transformation.format", t.DateFormat)
	}
}

func (p *problems) compression(place string, c Compression) {
	switch c {
	case "", Gzip, Zip, Plain:
	default:
		p.add(place, "must be %s, %s or %s, is %q", Gzip, Zip, Plain, c)
	}
}

// recipients does not quote an address: it is a person's.
func (p *problems) recipients(addresses []string) {
	for i, address := range addresses {
		if a, err := mail.ParseAddress(address); err != nil || a.Address != address {
			p.add(fmt.Sprintf("reportRecipients[%d]", i), "is not an e-mail address")
		}
	}
}

func (o *OutputLocation) check(p *problems) {
	if o != nil && (o.RemoteLocationID == "") == (o.Entity == "") {
		p.add("fileTransfer.output.location", "must name either a remote location or an entity")
	}
}
