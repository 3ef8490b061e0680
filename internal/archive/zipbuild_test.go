// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/klauspost/compress/flate"
)

// rawEntry is an entry of a zip that is written as it is told, right or wrong. What is nil is what is right.
type rawEntry struct {
	name      string
	content   string
	method    uint16
	flags     uint16
	system    uint16 // that the zip was made on
	mode      uint32 // unix mode; sets the system to unix
	dos       uint32
	unpacked  *uint32
	packed    *uint32
	checksum  *uint32
	data      *string // packed content
	header    *uint32 // offset
	disk      uint16
	extra     string
	comment   string
	local     *rawEntry // what the header in front of the data says instead
	hasNoData bool      // neither header nor data are written
	gap       string    // written before the header
}

// rawZip is a zip of raw entries. The functions change what the end record says.
type rawZip struct {
	entries []rawEntry
	front   string
	middle  string // between directory and end record
	comment string
	tail    string
	end     func(record []byte)
	cut     int
}

// deflate cannot fail: the level exists and the buffer takes everything.
func deflate(content string) string {
	var buf bytes.Buffer
	w, _ := flate.NewWriter(&buf, 9)
	_, _ = w.Write([]byte(content))
	_ = w.Close()
	return buf.String()
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// middlePart gives the fields that the header and the record of an entry have in common.
func (e rawEntry) middlePart(data string) []byte {
	b := binary.LittleEndian.AppendUint16(nil, 20) // version that can read it
	b = binary.LittleEndian.AppendUint16(b, e.flags)
	b = binary.LittleEndian.AppendUint16(b, e.method)
	b = binary.LittleEndian.AppendUint32(b, 0x5a21_0000) // time
	b = binary.LittleEndian.AppendUint32(b, or(e.checksum, crc32.ChecksumIEEE([]byte(e.content))))
	b = binary.LittleEndian.AppendUint32(b, or(e.packed, uint32(len(data))))
	b = binary.LittleEndian.AppendUint32(b, or(e.unpacked, uint32(len(e.content))))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.name)))
	return binary.LittleEndian.AppendUint16(b, uint16(len(e.extra)))
}

func (e rawEntry) record(data string, offset uint32) []byte {
	system := e.system
	if e.mode != 0 && system == 0 {
		system = 3
	}
	b := binary.LittleEndian.AppendUint16([]byte(zipRecordMark), system<<8|20)
	b = append(b, e.middlePart(data)...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.comment)))
	b = binary.LittleEndian.AppendUint16(b, e.disk)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, e.mode<<16|e.dos)
	b = binary.LittleEndian.AppendUint32(b, or(e.header, offset))
	return append(b, e.name+e.extra+e.comment...)
}

func (z rawZip) build() []byte {
	var buf bytes.Buffer
	buf.WriteString(z.front)
	var directory []byte
	for _, e := range z.entries {
		data := e.content
		if e.method == 8 {
			data = deflate(e.content)
		}
		data = or(e.data, data)
		buf.WriteString(e.gap)
		offset := uint32(buf.Len() - len(z.front))
		if !e.hasNoData {
			header := or(e.local, e)
			buf.WriteString(zipLocalMark)
			buf.Write(header.middlePart(data))
			buf.WriteString(header.name + header.extra + data)
		}
		directory = append(directory, e.record(data, offset)...)
	}
	offset := buf.Len() - len(z.front)
	buf.Write(directory)
	buf.WriteString(z.middle)
	end := append([]byte(zipEndMark), make([]byte, 4)...)
	end = binary.LittleEndian.AppendUint16(end, uint16(len(z.entries)))
	end = binary.LittleEndian.AppendUint16(end, uint16(len(z.entries)))
	end = binary.LittleEndian.AppendUint32(end, uint32(len(directory)))
	end = binary.LittleEndian.AppendUint32(end, uint32(offset))
	end = binary.LittleEndian.AppendUint16(end, uint16(len(z.comment)))
	if z.end != nil {
		z.end(end)
	}
	buf.Write(end)
	buf.WriteString(z.comment + z.tail)
	return buf.Bytes()[:buf.Len()-z.cut]
}

// plain makes a zip of files with the given names.
func plain(names ...string) rawZip {
	var z rawZip
	for _, name := range names {
		e := rawEntry{name: name, content: "content of " + name}
		if strings.HasSuffix(name, "/") {
			e.content = ""
		}
		z.entries = append(z.entries, e)
	}
	return z
}

func one(e rawEntry) rawZip { return rawZip{entries: []rawEntry{e}} }
