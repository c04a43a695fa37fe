package schemas

import "strconv"

// convert makes of a decoded value what its producer meant by it. What it does
// not understand it leaves as it is.
type convert func(Value) Value

// connectType reads the properties that Kafka Connect's converters put on a
// type: connect.name and connect.parameters.
func connectType(props map[string]any) convert {
	name, _ := props["connect.name"].(string)
	if name == "" {
		return nil
	}
	given, _ := props["connect.parameters"].(map[string]any)
	parameters := make(map[string]string, len(given))
	for key, v := range given {
		parameters[key], _ = v.(string)
	}
	return connectNamed(name, parameters)
}

// connectNamed is the conversion that belongs to the name of a Kafka Connect
// schema, nil where the value says all there is. It is the one place that knows
// such names, whatever the format the value came in.
func connectNamed(name string, _ map[string]string) convert {
	switch name {
	case "io.debezium.time.Date", "org.apache.kafka.connect.data.Date":
		return whole((*texts).date)
	case "io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp":
		return moments(1e3)
	case "io.debezium.time.MicroTimestamp":
		return moments(1e6)
	case "io.debezium.time.NanoTimestamp":
		return moments(1e9)
	case "io.debezium.time.Time", "org.apache.kafka.connect.data.Time":
		return clocks(1e3, 3)
	case "io.debezium.time.MicroTime":
		return clocks(1e6, 6)
	case "io.debezium.time.NanoTime":
		return clocks(1e9, 9)
	}
	return nil
}

// whole converts whole numbers.
func whole(text func(t *texts, n int64) (string, bool)) convert {
	return func(v Value) Value {
		if v.kind != Number {
			return v
		}
		n, err := strconv.ParseInt(v.Text(), 10, 64)
		if err != nil {
			return v
		}
		if s, ok := text(&texts{}, n); ok {
			return StringValue(s)
		}
		return v
	}
}

func moments(perSecond int64) convert {
	return whole(func(t *texts, n int64) (string, bool) { return t.since(n, perSecond, false) })
}

func clocks(perSecond int64, digits int) convert {
	return whole(func(t *texts, n int64) (string, bool) { return t.clock(n, perSecond, digits) })
}
