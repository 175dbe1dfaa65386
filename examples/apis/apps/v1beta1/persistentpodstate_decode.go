package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads any spec, even with invalid fields, like the UnmarshalJSON of CloneSetSpec.
func (s *PersistentPodStateSpec) UnmarshalJSON(data []byte) error {
	type plain PersistentPodStateSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = PersistentPodStateSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec with undecodable fields: writing the spec would lose the fields.
func (s PersistentPodStateSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain PersistentPodStateSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status without its invalid fields, like the UnmarshalJSON of CloneSetStatus.
func (s *PersistentPodStateStatus) UnmarshalJSON(data []byte) error {
	type plain PersistentPodStateStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = PersistentPodStateStatus(read)
	return nil
}
