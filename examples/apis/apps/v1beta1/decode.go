package v1beta1

import (
	"encoding/json"
	"fmt"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields: no schema checks templates, or limits integers and
// percentages to 32 bits, and a list of CloneSets must not fail for a single item. The invalid fields are in
// Undecodable.
func (s *CloneSetSpec) UnmarshalJSON(data []byte) error {
	type plain CloneSetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = CloneSetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s CloneSetSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain CloneSetSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *StatefulSetSpec) UnmarshalJSON(data []byte) error {
	type plain StatefulSetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = StatefulSetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s StatefulSetSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain StatefulSetSpec
	return json.Marshal(plain(s))
}

func readInFull(problems []decode.Problem) error {
	if len(problems) > 0 {
		return fmt.Errorf("a spec that was not decoded in full cannot be written: %w", problems[0])
	}
	return nil
}

// UnmarshalJSON reads a status without its invalid fields: the schema accepts times unknown to Go, such as a time with
// a small t. The next write of the status corrects the fields.
func (s *CloneSetStatus) UnmarshalJSON(data []byte) error {
	type plain CloneSetStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = CloneSetStatus(read)
	return nil
}

// UnmarshalJSON reads a status without its invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *StatefulSetStatus) UnmarshalJSON(data []byte) error {
	type plain StatefulSetStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = StatefulSetStatus(read)
	return nil
}
