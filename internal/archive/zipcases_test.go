// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
)

// zipCase is a zip and what is said about it. A case without wantProblem is taken.
type zipCase struct {
	zip         rawZip
	wantPath    string
	wantProblem string
}

// trickyZips are also the corpus of FuzzFromZip. Keep them small.
func trickyZips() map[string]zipCase {
	cases := map[string]zipCase{}
	for _, group := range []map[string]zipCase{
		goodZips(), badNameZips(), badModeZips(), badContentZips(), badHeaderZips(), badFrameZips(), overlappingZips(),
		bombZips(),
	} {
		maps.Copy(cases, group)
	}
	return cases
}

func goodZips() map[string]zipCase {
	text := strings.Repeat("def handle(event, context):\n", 20)
	return map[string]zipCase{
		"good stored":   {zip: plain("handler.py", "src/", "src/app.py")},
		"good deflated": {zip: one(rawEntry{name: "handler.py", content: text, method: 8, mode: 0o100644})},
		"good modes": {zip: rawZip{entries: []rawEntry{
			{name: "run", content: "#!/bin/sh", mode: 0o100755}, {name: "d/", mode: 0o042775}, {name: "d/f", mode: 0o101600},
			{name: "win", system: 10, dos: 0x0040_0020}, {name: "no type", mode: 0o644},
		}}},
		"good, made for a pipe": {zip: one(rawEntry{
			name: "a", content: text, method: 8, flags: 8, local: &rawEntry{name: "a", method: 8, flags: 8},
		})},
		"good, ready for zip64": {zip: one(rawEntry{name: "a", content: text, local: &rawEntry{
			name: "a", content: text, packed: new(uint32(zipUnknown32)), unpacked: new(uint32(zipUnknown32)),
			extra: "\x01\x00\x10\x00" + strings.Repeat("\x00", 16),
		}})},
		"good, folder that seems packed": {zip: rawZip{entries: []rawEntry{
			{name: "d/", method: 8}, {name: "d/a", content: "x"},
		}}},
		"good with gaps": {zip: rawZip{entries: []rawEntry{
			{name: "a"}, {name: "b", gap: "gap"}, {name: "c", gap: "PK\x03\x04"},
		}}},
		"good with comment": {zip: rawZip{entries: []rawEntry{{name: "a", comment: "c"}}, comment: "hello"}},
		"good with junk":    {zip: plain("__MACOSX/._a", "__MACOSX/../../x", ".DS_Store", "d/.DS_Store", "d/a")},
		"good beside junk":  {zip: plain("__MACOSX", "d/__MACOSX/a", "d/x.DS_Store", "._a", ".git/config")},
		"good UTF-8":        {zip: plain("été/日本語.py")},
		"good one folder":   {zip: plain("project/", "project/handler.py", "project/empty/")},
	}
}

func badNameZips() map[string]zipCase {
	cases := map[string]zipCase{}
	for name, problem := range map[string]string{
		"../x":                           "leads out of the source",
		"a/../../x":                      "leads out of the source",
		"a/..":                           "leads out of the source",
		"../":                            "leads out of the source",
		"\uff0e\uff0e/x":                 "leads out of the source",
		".. /x":                          "leads out of the source",
		"./x":                            `has the element "."`,
		"/etc/passwd":                    "is an absolute path",
		"//server/share":                 "is an absolute path",
		"/":                              "is an empty path",
		"":                               "is an empty path",
		"a//b":                           "has an empty element (// or / at the end)",
		"a//":                            "has an empty element (// or / at the end)",
		"C:/x":                           "starts with a drive letter",
		"c:x":                            "starts with a drive letter",
		`..\x`:                           `has a backslash; folders are separated by /`,
		`d\`:                             `has a backslash; folders are separated by /`,
		`\\server\share`:                 `has a backslash; folders are separated by /`,
		"a\x00.py":                       "has a control character",
		"a\n":                            "has a control character",
		"a\u202eyp.x":                    "has a control character",
		".wh.handler.py":                 "has a name that starts with .wh., which deletes files in an image",
		"d/.wh..wh..opq":                 "has a name that starts with .wh., which deletes files in an image",
		"caf\x82.py":                     "is not valid UTF-8; make the zip with a program that writes UTF-8 names",
		strings.Repeat("d/", 32) + "x":   "is nested too deeply",
		strings.Repeat("n", 256):         "has a name that is too long",
		strings.Repeat("n/12345/", 1000): "is a path that is too long",
	} {
		key := "bad name " + quote(name)
		cases[key] = zipCase{zip: plain(name), wantPath: strings.TrimSuffix(name, "/"), wantProblem: problem}
	}
	cases["twice"] = zipCase{zip: plain("a", "b", "a"), wantPath: "a", wantProblem: "appears twice"}
	cases["letter case"] = zipCase{
		zip: plain("App.py", "app.py"), wantPath: "app.py",
		wantProblem: `differs from "App.py" only in letter case or Unicode form`,
	}
	cases["Unicode form"] = zipCase{
		zip: plain("\u00e9.py", "e\u0301.py"), wantPath: "\u00e9.py",
		wantProblem: "differs from \"e\u0301.py\" only in letter case or Unicode form",
	}
	cases["folder case"] = zipCase{
		zip: plain("Lib/", "lib/a"), wantPath: "lib", wantProblem: `differs from "Lib" only in letter case or Unicode form`,
	}
	cases["file and empty folder"] = zipCase{
		zip: plain("a/", "a"), wantPath: "a", wantProblem: "is both a file and a folder",
	}
	cases["file and folder"] = zipCase{
		zip: plain("a/b", "a"), wantPath: "a", wantProblem: "is both a file and a folder",
	}
	cases["only folders"] = zipCase{zip: plain("a/", "b/"), wantProblem: "has no files"}
	cases["only junk"] = zipCase{zip: plain(".DS_Store"), wantProblem: "has no files"}
	cases["nothing"] = zipCase{wantProblem: "has no files"}
	return cases
}

func badModeZips() map[string]zipCase {
	cases := map[string]zipCase{}
	add := func(key string, e rawEntry, problem string) {
		if e.name == "" {
			e.name = "x"
		}
		e.content = or(e.data, "/etc/passwd")
		cases[key] = zipCase{zip: one(e), wantPath: e.name, wantProblem: problem}
	}
	const only = "; only files and folders are taken"
	add("link", rawEntry{mode: 0o120777}, "is a symbolic link"+only)
	add("link from FAT", rawEntry{mode: 0o120777, system: 1}, "is a symbolic link"+only)
	add("link as folder", rawEntry{name: "x/", mode: 0o120777, data: new("")}, "is a symbolic link"+only)
	add("character device", rawEntry{mode: 0o020666}, "is a device"+only)
	add("block device", rawEntry{mode: 0o060666}, "is a device"+only)
	add("pipe", rawEntry{mode: 0o010666}, "is a named pipe"+only)
	add("socket", rawEntry{mode: 0o140666}, "is a socket"+only)
	add("unknown type", rawEntry{mode: 0o150666}, "is of the unknown type 150000"+only)
	add("set user ID", rawEntry{mode: 0o104755}, "has a set-user-ID or set-group-ID bit")
	add("set group ID", rawEntry{mode: 0o102755}, "has a set-user-ID or set-group-ID bit")
	add("folder without slash", rawEntry{mode: 0o040755}, "is marked as a folder, but its name has no / at the end")
	add("DOS folder without slash", rawEntry{dos: 0x10}, "is marked as a folder, but its name has no / at the end")
	add("folder with content", rawEntry{name: "x/"}, "is a folder with content")
	return cases
}

func badContentZips() map[string]zipCase {
	const text = "some text, some text, some text"
	cases := map[string]zipCase{}
	const longer = "unpacks to more than the %d bytes that it announces"
	add := func(key string, e rawEntry, problem string) {
		e.name, e.content = "x", text
		cases[key] = zipCase{zip: rawZip{entries: []rawEntry{e, {name: "y"}}}, wantPath: "x", wantProblem: problem}
	}
	packed := deflate(text)
	add("encrypted", rawEntry{flags: 1}, "is encrypted")
	add("strongly encrypted", rawEntry{flags: 1 << 6}, "is encrypted")
	add("masked", rawEntry{flags: 1 << 13}, "is encrypted")
	add("AES", rawEntry{flags: 1, method: 99}, "is encrypted")
	add("patch", rawEntry{flags: 1 << 5}, "is a patch and not a whole file")
	add("bzip2", rawEntry{method: 12}, "is packed with method 12; only Store (0) and Deflate (8) are taken")
	add("longer", rawEntry{unpacked: new(uint32(5))}, fmt.Sprintf(longer, 5))
	add("longer, deflated", rawEntry{method: 8, unpacked: new(uint32(5))}, fmt.Sprintf(longer, 5))
	add("longer than nothing", rawEntry{method: 8, unpacked: new(uint32(0))}, fmt.Sprintf(longer, 0))
	add("shorter", rawEntry{unpacked: new(uint32(99))}, "unpacks to 31 bytes and announces 99")
	add("shorter, deflated", rawEntry{method: 8, unpacked: new(uint32(99))}, "unpacks to 31 bytes and announces 99")
	add("checksum", rawEntry{checksum: new(uint32(1))}, "does not have the checksum that it announces")
	add("checksum 0", rawEntry{checksum: new(uint32(0))}, "does not have the checksum that it announces")
	add("no deflate", rawEntry{method: 8, data: new("\xff\xff\xff")},
		"cannot be unpacked: flate: corrupt input before offset 1")
	add("deflate cut", rawEntry{method: 8, data: new(packed[:len(packed)-2])}, "cannot be unpacked: unexpected EOF")
	add("data after deflate", rawEntry{method: 8, data: new(packed + "hidden")}, "has packed data after its end")
	return cases
}

func badHeaderZips() map[string]zipCase {
	local := func(l rawEntry) rawZip {
		return one(rawEntry{name: "x", content: "text", local: &l})
	}
	const differs = "has a header of its own that contradicts the zip directory"
	return map[string]zipCase{
		"local name":     {local(rawEntry{name: "y", content: "text"}), "x", "has another name in its own header"},
		"local length":   {local(rawEntry{name: "xy", content: "text"}), "x", "has another name in its own header"},
		"local method":   {local(rawEntry{name: "x", content: "text", method: 8}), "x", differs},
		"local flags":    {local(rawEntry{name: "x", content: "text", flags: 1}), "x", differs},
		"local checksum": {local(rawEntry{name: "x", content: "test"}), "x", differs},
		"local packed":   {local(rawEntry{name: "x", content: "text", packed: new(uint32(3))}), "x", differs},
		"local unpacked": {local(rawEntry{name: "x", content: "text", unpacked: new(uint32(3))}), "x", differs},
		"no local header": {
			rawZip{entries: []rawEntry{{name: "a", content: "text"}, {name: "x", header: new(uint32(1))}}},
			"x", "does not begin where the zip directory says",
		},
		"outside": {
			one(rawEntry{name: "x", header: new(uint32(1 << 20))}), "x", "lies outside the data of the zip archive",
		},
		"zip64 size": {
			one(rawEntry{
				name: "x", unpacked: new(uint32(zipUnknown32)), extra: "\x01\x00\x08\x00\xff\xff\xff\xff\xff\xff\xff\x7f",
			}),
			"x", needlessZip64,
		},
		"zip64 packed": {one(rawEntry{name: "x", packed: new(uint32(zipUnknown32))}), "x", needlessZip64},
		"zip64 offset": {one(rawEntry{name: "x", header: new(uint32(zipUnknown32))}), "x", needlessZip64},
		"other disk":   {one(rawEntry{name: "x", disk: 1}), "x", "is in another part of a zip archive that was split"},
	}
}

func badFrameZips() map[string]zipCase {
	change := func(offset int, value uint16) rawZip {
		z := plain("a", "b")
		z.end = func(record []byte) { binary.LittleEndian.PutUint16(record[offset:], value) }
		return z
	}
	with := func(edit func(*rawZip)) rawZip {
		z := plain("a", "b")
		edit(&z)
		return z
	}
	return map[string]zipCase{
		"prefix": {
			zip:         with(func(z *rawZip) { z.front = "#!/bin/sh\n" }),
			wantProblem: misplacedDirectory,
		},
		"prefix inside": {
			zip: with(func(z *rawZip) { z.entries[0].gap = "MZ" }), wantProblem: "has data in front of its first entry",
		},
		"tail": {
			zip: with(func(z *rawZip) { z.tail = "x" }), wantProblem: "has data after the end of its zip archive",
		},
		"between": {
			zip:         with(func(z *rawZip) { z.middle = "x" }),
			wantProblem: misplacedDirectory,
		},
		"end in comment": {
			zip:         with(func(z *rawZip) { z.comment = zipEndMark + strings.Repeat("\x00", 18) }),
			wantProblem: misplacedDirectory,
		},
		"cut":               {zip: with(func(z *rawZip) { z.cut = 1 }), wantProblem: noZip},
		"comment cut":       {zip: with(func(z *rawZip) { z.comment, z.cut = "hello", 2 }), wantProblem: noZip},
		"no end":            {zip: with(func(z *rawZip) { z.cut = 22 }), wantProblem: noZip},
		"fewer records":     {zip: with(func(z *rawZip) { z.end = endCount(1) }), wantProblem: zipDirectoryOff},
		"more records":      {zip: with(func(z *rawZip) { z.end = endCount(3) }), wantProblem: zipDirectoryOff},
		"count of the disk": {zip: change(8, 1), wantProblem: "is one part of a zip archive that was split"},
		"disk":              {zip: change(4, 1), wantProblem: "is one part of a zip archive that was split"},
		"short directory":   {zip: change(12, 1), wantProblem: misplacedDirectory},
		"long directory":    {zip: change(12, 1000), wantProblem: zipDirectoryOff},
		"zip64 count":       {zip: change(10, zipUnknown16), wantProblem: needlessZip64},
		"zip64 locator": {
			zip: with(func(z *rawZip) {
				z.middle = zipLocatorMark + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"
			}),
			wantProblem: needlessZip64,
		},
	}
}

func endCount(count uint16) func([]byte) {
	return func(record []byte) {
		binary.LittleEndian.PutUint16(record[8:], count)
		binary.LittleEndian.PutUint16(record[10:], count)
	}
}

func overlappingZips() map[string]zipCase {
	// The data of b are a whole entry c: what a classical bomb does with thousands of entries.
	quoted := plain("c").build()
	quoted = quoted[:zipLocalLen+1+len("content of c")]
	inner := rawEntry{name: "c", content: "content of c", header: new(uint32(zipLocalLen + 1)), hasNoData: true}
	return map[string]zipCase{
		"quoted": {
			rawZip{entries: []rawEntry{{name: "b", content: string(quoted)}, inner}},
			"c", `shares bytes of the zip archive with "b"`,
		},
		"same data": {
			rawZip{entries: []rawEntry{
				{name: "a", content: "x"}, {name: "a", content: "x", header: new(uint32(0)), hasNoData: true},
			}},
			"a", `shares bytes of the zip archive with "a"`,
		},
		"same data, other name": {
			rawZip{entries: []rawEntry{
				{name: "a", content: "x"}, {name: "b", content: "x", header: new(uint32(0)), hasNoData: true},
			}},
			"b", "has another name in its own header",
		},
		"hidden in junk": {
			rawZip{entries: []rawEntry{{name: ".DS_Store", content: strings.Repeat("x", 8) + string(quoted)}, {
				name: "c", content: "content of c", header: new(uint32(zipLocalLen + 9 + 8)), hasNoData: true,
			}}},
			"c", `shares bytes of the zip archive with ".DS_Store"`,
		},
		"into the directory": {
			one(rawEntry{name: "x", packed: new(uint32(60)), unpacked: new(uint32(60))}),
			"x", "reaches into the directory of the zip archive",
		},
		"long extra field": {
			one(rawEntry{name: "x", content: "text", local: &rawEntry{name: "x", content: "text", extra: "12"}}), "", "",
		},
	}
}

func bombZips() map[string]zipCase {
	zeros := strings.Repeat("\x00", 1<<20+1)
	many := rawZip{}
	for _, name := range []string{"a", "b", "c"} {
		many.entries = append(many.entries, rawEntry{name: name, content: zeros[:1<<20], method: 8})
	}
	return map[string]zipCase{
		"bomb": {
			one(rawEntry{name: "x", content: zeros, method: 8}), "x", "unpacks to more than 200 times its packed size",
		},
		"bomb of nothing": {
			one(rawEntry{name: "x", method: 8, unpacked: new(uint32(2 << 20)), data: new("")}),
			"x", "unpacks to more than 200 times its packed size",
		},
		"bomb of many": {many, "", "unpacks to more than 200 times its packed size"},
		"small bomb":   {one(rawEntry{name: "x", content: zeros[1:], method: 8}), "", ""},
		"much announced": {
			one(rawEntry{name: "x", content: "x", unpacked: new(uint32(300 << 20))}),
			"x", "unpacks to more than 200 times its packed size",
		},
	}
}
