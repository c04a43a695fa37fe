package schemas

import (
	"encoding/base64"
	"strings"
)

// CloudEvents 1.0's binding to Kafka: in the binary content mode an event's attributes
// are headers of this prefix, but for datacontenttype, which is the record's content type.
const (
	AttributePrefix   = "ce_"
	HeaderContentType = "content-type"
	HeaderDataType    = AttributePrefix + "datacontenttype"
)

const (
	eventMediaType = "application/cloudevents"
	attrVersion    = "specversion"
	version        = "1.0"
	memberData     = "data"
	memberEncoded  = "data_base64"

	ruleNoEvent        = "is no event: there is neither the header ce_specversion nor an object with specversion, id, source and type"
	ruleBatch          = "is a batch of events, and only single ones are read; have the producer write one event to a record"
	ruleEventFormat    = "must be " + eventMediaType + "+json: other event formats are not read"
	ruleVersion        = "must be " + version
	ruleAttribute      = "must be text that is not empty"
	ruleAttributeValue = "must be text, a number, true or false"
	ruleEncoded        = "must be text in base64"
	ruleTwoData        = "must not stand beside data"
)

// requiredAttributes are those that each event has besides specversion.
var requiredAttributes = [...]string{"id", "source", "type"}

// CloudEvent is an event in the structured content mode.
type CloudEvent struct {
	// Attributes are the event's, as text, under the names of the headers that they are
	// in the binary content mode, such as ce_type. Those that are null are left out.
	Attributes []Field
	// Data is Absent where the event has none, or has it in Encoded.
	Data Value
	// Encoded is what data_base64 stands for; nil where there is none.
	Encoded []byte
}

// IsStructuredEvent tells the content mode of a record that holds an event, from its
// headers: the value is the event (structured), or only its data (binary). header
// returns the text of the last header of a name, "" where there is none. The errors
// are *DecodeError: for a batch, for an event format other than JSON, and for
// attributes that a binary event lacks.
func IsStructuredEvent(header func(name string) string) (bool, error) {
	mediaType, _, _ := strings.Cut(header(HeaderContentType), ";")
	if format, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(mediaType)), eventMediaType); ok {
		switch {
		case format == "", format == "+json":
			return true, nil
		case strings.HasPrefix(format, "-batch"):
			return false, noEvent("", ruleBatch)
		}
		return false, noEvent(HeaderContentType, ruleEventFormat)
	}
	switch header(AttributePrefix + attrVersion) {
	case version:
	case "":
		return true, nil // if it is an event, its members say so
	default:
		return false, noEvent(AttributePrefix+attrVersion, ruleVersion)
	}
	for _, name := range requiredAttributes {
		if header(AttributePrefix+name) == "" {
			return false, noEvent(AttributePrefix+name, ruleAttribute)
		}
	}
	return false, nil
}

// StructuredEvent reads an event in the structured content mode. The errors are
// *DecodeError.
func StructuredEvent(v Value) (CloudEvent, error) {
	switch {
	case v.kind == List:
		return CloudEvent{}, noEvent("", ruleBatch)
	case v.Get(attrVersion).kind == Absent:
		return CloudEvent{}, noEvent("", ruleNoEvent)
	case v.Get(attrVersion).Text() != version:
		return CloudEvent{}, noEvent(attrVersion, ruleVersion)
	}
	for _, name := range requiredAttributes {
		if at := v.Get(name); at.kind != String || at.Text() == "" {
			return CloudEvent{}, noEvent(name, ruleAttribute)
		}
	}
	var ev CloudEvent
	for _, member := range v.Items() {
		name, v := member.Name, member.Value
		var err error
		switch {
		case v.kind == Null, v.kind == Absent:
		case name == memberData:
			ev.Data = v
		case name == memberEncoded:
			if ev.Encoded, err = base64.StdEncoding.DecodeString(v.Text()); err != nil || v.kind != String {
				return CloudEvent{}, noEvent(name, ruleEncoded)
			}
		case v.kind == String, v.kind == Number, v.kind == Bool:
			ev.Attributes = append(ev.Attributes, Field{Name: AttributePrefix + name, Value: StringValue(v.Text())})
		default:
			return CloudEvent{}, noEvent(name, ruleAttributeValue)
		}
	}
	if ev.Encoded != nil && ev.Data.kind != Absent {
		return CloudEvent{}, noEvent(memberEncoded, ruleTwoData)
	}
	return ev, nil
}

// noEvent says what keeps a record from being an event.
func noEvent(field, rule string) *DecodeError {
	return &DecodeError{Format: "cloudevents", Offset: nowhere, Rule: Invalid(field, rule).Error()}
}
