package schemas

// convert makes of a decoded value what its producer meant by it. What it does
// not understand it leaves as it is.
type convert func(Value) Value

// connectTimestamp is the name that goes with the logical type timestamp-millis.
const connectTimestamp = "org.apache.kafka.connect.data.Timestamp"

// connectType reads the properties that Kafka Connect's converters put on an
// Avro type, connect.name and connect.parameters, and converts by them as
// Logical does. A value that is not what its name says, such as the date
// infinity, is Unreadable: whoever maps it finds out.
func connectType(props map[string]any) convert {
	name, _ := props["connect.name"].(string)
	if name == "" {
		return nil
	}
	given, _ := props["connect.parameters"].(map[string]any)
	members := make([]Field, 0, len(given))
	for key, v := range given {
		if text, ok := v.(string); ok {
			members = append(members, Field{Name: key, Value: StringValue(text)})
		}
	}
	parameters := ObjectValue(members)
	return func(v Value) Value {
		converted, err := logical(name, parameters, v)
		if err != nil {
			return textValue(Unreadable, err.Rule)
		}
		return converted
	}
}
