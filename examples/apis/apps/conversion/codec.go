package conversion

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// plain returns a codec whose text has no quotes or escapes: show returns letters(value), or "" if read could not read
// this text.
func plain(read func(text string) any) codec {
	return codec{read: read, show: func(value any) string {
		shown := letters(value)
		if read(shown) == nil {
			return ""
		}
		return shown
	}}
}

// letters returns a string without quotes, a list as its elements separated by commas, and any other value as JSON.
func letters(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case []any:
		words := make([]string, len(value))
		for i := range value {
			words[i] = letters(value[i])
		}
		return strings.Join(words, ",")
	}
	return string(encoded(value))
}

// flag returns the codec of a boolean: true has the text "true", and false has no text.
func flag() codec {
	return plain(func(text string) any { return map[string]any{"true": true}[text] })
}

func word() codec { return plain(func(text string) any { return text }) }

// number returns the codec of an int32. A text whose number is below least has no value.
func number(least int64) codec {
	read := func(least int64) func(string) any {
		return func(text string) any {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil || n < least {
				return nil
			}
			return json.Number(strconv.FormatInt(n, 10))
		}
	}
	return codec{read: read(least), show: plain(read(math.MinInt32)).show}
}

// count returns the codec of an int32 or of any text, such as a percentage.
func count() codec {
	numbers := number(math.MinInt32)
	return plain(func(text string) any {
		if n := numbers.read(text); n != nil || text == "" {
			return n
		}
		return text
	})
}

func operations() codec {
	return plain(func(text string) any { return decoded(encoded(policyv1beta1.OperationsIn(text))) })
}

// snapshot returns the codec of a list of containers; the text is JSON. An empty list has no text.
func snapshot() codec {
	read := func(text []byte) json.RawMessage {
		var list []v1beta1.ContainerRecreateRequestContainerStatus
		if json.Unmarshal(text, &list) != nil || len(list) == 0 {
			return nil
		}
		return encoded(list)
	}
	return codec{
		read: func(text string) any { return decoded(read([]byte(text))) },
		show: func(value any) string { return string(read(encoded(value))) },
	}
}

// grace returns the codec of a list of conditions that contains only PreRecreateGrace; the text is the transition time
// of the condition. The zero time stands for a list without the condition.
func grace() codec {
	return codec{
		read: func(text string) any {
			since, err := time.Parse(time.RFC3339, text)
			if err != nil || since.IsZero() {
				return nil
			}
			return decoded(encoded([]metav1.Condition{{
				Type: apps.ConditionPreRecreateGrace, Status: metav1.ConditionTrue, Reason: apps.ConditionPreRecreateGrace,
				LastTransitionTime: metav1.NewTime(since),
			}}))
		},
		show: func(value any) string {
			for _, c := range conditions(value) {
				if c.Type == apps.ConditionPreRecreateGrace && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.IsZero() {
					return c.LastTransitionTime.UTC().Format(time.RFC3339)
				}
			}
			return ""
		},
	}
}

// conditions decodes a list of conditions, or returns nil for any other value.
func conditions(value any) (list []metav1.Condition) {
	if utiljson.Unmarshal(encoded(decodable(decoded(encoded(value)))), &list) != nil {
		return nil
	}
	return list
}

// decodable converts a value that the schema accepts to a similar value that the Go types accept. The schema does not
// limit a number that may also be a percentage, and accepts times with lower-case letters.
func decodable(value any) any {
	switch value := value.(type) {
	case object:
		for key := range value {
			value[key] = decodable(value[key])
		}
	case []any:
		for i := range value {
			value[i] = decodable(value[i])
		}
	case json.Number:
		if n, err := value.Float64(); err == nil && (n > math.MaxInt32 || n < math.MinInt32) {
			return int32(min(max(n, math.MinInt32), math.MaxInt32))
		}
	case string:
		if _, err := time.Parse(time.RFC3339, strings.ToUpper(value)); err == nil {
			return strings.ToUpper(value)
		}
	}
	return value
}
